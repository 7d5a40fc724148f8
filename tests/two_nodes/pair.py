"""Two nodes under test: functions beside one of them, calls that are held on a slice, what the processes have open.

A call is held by stopping the worker that runs it (SIGSTOP): no time has to be guessed, and the slice
stays busy until the test lets the worker go on.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import urllib.request
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil

from tests.platform_rig import Platform, Reply

SCALE = Path(__file__).parent / "functions" / "scale"


class Pair:
    """A platform with the nodes `a` and `b`."""

    def __init__(self, platform: Platform) -> None:
        self.platform = platform
        self._pool = ThreadPoolExecutor(8)
        self._deployed: list[str] = []
        self._stopped: set[psutil.Process] = set()

    def __enter__(self) -> Pair:
        self.platform.cli("build", str(SCALE), "-t", "scale")
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(cancel_futures=True)

    def begin(self) -> None:
        """Both nodes are here and idle; `lb` is the policy, which takes the idle slice of lowest index."""
        self.platform.wait(lambda: self.statuses() == {"a-s0": "idle", "b-s0": "idle"}, "the slices are not idle")
        assert self.platform.system("/system/scheduler/policy", "PUT", {"name": "lb"}).status == 200

    def finish(self) -> None:
        """Let everything go on, remove the test's functions and their workers."""
        for process in self._stopped:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(signal.SIGCONT)
        self._stopped.clear()
        for name in self._deployed:
            self.platform.system("/system/functions", "DELETE", {"functionName": name})
        self._deployed.clear()
        self.platform.wait(lambda: not self.state()["bindings"], "bindings are left")

    # ------------------------------------------------------------------ functions and calls

    def deploy(self, name: str, node: str, factor: float = 2, image: str = "scale") -> str:
        """A function that multiplies by `factor`, its replica beside `node`."""
        wish = {
            "service": name, "image": image, "labels": {"com.slicewise.gpu": "true"},
            "envVars": {"FACTOR": str(factor)}, "constraints": [f"node={node}"],
        }  # fmt: skip
        answer = self.platform.system("/system/functions", "POST", wish)
        assert answer.status == 202, answer.text
        self._deployed.append(name)
        self.platform.wait_ready(name)
        return name

    def call(self, name: str, numbers: str = "1 2.5", rows: int = 1) -> Reply:
        """One call that must be answered."""
        answer = self.platform.call(f"{name}?rows={rows}", numbers.encode())
        assert answer.status == 200, f"{name}: {answer.status} {answer.text}\n{self.platform.log_tails()}"
        return answer

    def begin_call(self, name: str, numbers: str = "1 2.5", rows: int = 1) -> Future[Reply]:
        """One call in a thread."""
        return self._pool.submit(self.call, name, numbers, rows)

    def stop(self, name: str, node: str) -> psutil.Process:
        """Stop a function's worker on a node, so that its next call there does not end."""
        worker = self.worker(name, node)
        self.freeze(worker)
        return worker

    def freeze(self, process: psutil.Process) -> None:
        """SIGSTOP; undone by `thaw`, at the latest when the test ends."""
        process.send_signal(signal.SIGSTOP)
        self._stopped.add(process)

    def thaw(self, process: psutil.Process) -> None:
        """SIGCONT."""
        process.send_signal(signal.SIGCONT)
        self._stopped.discard(process)

    def hold(self, name: str, node: str) -> tuple[psutil.Process, Future[Reply]]:
        """A call that occupies the node's slice until its worker, which must be there, goes on."""
        worker = self.stop(name, node)
        answer = self.begin_call(name)
        self.platform.wait(lambda: self.statuses()[f"{node}-s0"] in ("busy", "stalled"), f"{node}-s0 is not busy")
        assert not answer.done()
        return worker, answer

    # ------------------------------------------------------------------ what can be seen

    def state(self) -> dict[str, Any]:
        """/system/scheduler/state."""
        answer = self.platform.system("/system/scheduler/state")
        assert answer.status == 200, answer.text
        document = answer.json()
        assert isinstance(document, dict)
        return document

    def statuses(self) -> dict[str, str]:
        """Slice -> idle, busy ..."""
        return {item["id"]: item["status"] for item in self.state()["slices"]}

    def holders(self, name: str) -> list[str]:
        """The slices that hold a function's worker."""
        return [s["id"] for s in self.state()["slices"] if any(_is_of(w["worker"], name) for w in s["workers"])]

    def placement(self, answer: Reply) -> dict[str, Any]:
        """The scheduler's record of a call's last binding."""
        call_id = answer.headers["x-call-id"]
        found = [item for item in self.state()["recent"] if item["call_id"].partition("~")[0] == call_id]
        assert found, f"no placement of {call_id}"
        last = found[-1]
        assert isinstance(last, dict)
        return last

    def metric(self, service: str, name: str, **labels: str) -> float:
        """One sample of a service's /metrics."""
        port = self.platform.board["addresses"][f"{service}-metrics"]
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
            text = answer.read().decode()
        for line in text.splitlines():
            sample = re.fullmatch(r"(\w+)(?:\{(.*)\})? (\S+)", line)
            if sample and sample[1] == name and dict(re.findall(r'(\w+)="([^"]*)"', sample[2] or "")) == labels:
                return float(sample[3])
        raise AssertionError(f"{service} has no {name} {labels}:\n{text}")

    def folder(self, node: str) -> Path:
        """A node's own state."""
        return self.platform.state_dir / "nodes" / node

    def packages(self, node: str, name: str) -> dict[str, Path]:
        """Digest -> file of a function's packages in a node's model store."""
        folder = self.folder(node) / "gpu_manager" / "models" / f"{name}.openfaas-fn"
        return {note.stem: note.with_suffix("") for note in folder.glob("*.json")}

    def log(self, name: str) -> list[dict[str, Any]]:
        """The lines of a process's log that are JSON."""
        found = []
        for line in (self.platform.state_dir / "logs" / f"{name}.log").read_text().splitlines():
            with contextlib.suppress(ValueError):
                found.append(json.loads(line))
        return found

    # ------------------------------------------------------------------ processes

    def manager(self, node: str) -> psutil.Process:
        """A node's GPU manager."""
        return psutil.Process(self.platform.pid(f"gpu_manager-{node}"))

    def worker(self, name: str, node: str) -> psutil.Process:
        """A function's worker on a node's slice."""
        title = f"sw:{name}.openfaas-fn"[:15]
        found = [p for p in self.manager(node).children(recursive=True) if _name(p) == title]
        assert len(found) == 1, found
        return found[0]

    def processes(self, node: str) -> list[psutil.Process]:
        """All of a node: GPU manager, zygotes, workers, function host, brokers, functions."""
        roots = [self.manager(node), psutil.Process(self.platform.pid(f"host-{node}"))]
        return [process for root in roots for process in (root, *root.children(recursive=True))]


def open_files(process: psutil.Process) -> Iterator[str]:
    """What a process has open or mapped, where it stands, and what it sees as its /tmp."""
    base = Path("/proc", str(process.pid))
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        yield os.readlink(base / "cwd")
        for fd in os.listdir(base / "fd"):
            with contextlib.suppress(FileNotFoundError):
                yield os.readlink(base / "fd" / fd)
        for line in (base / "maps").read_text().splitlines():
            yield line.split(maxsplit=5)[-1]


def payloads(process: psutil.Process) -> Iterator[tuple[int, int]]:
    """(device, inode) of the memory files that a process has open or mapped."""
    base = Path("/proc", str(process.pid))
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        for fd in os.listdir(base / "fd"):
            with contextlib.suppress(FileNotFoundError):
                if os.readlink(base / "fd" / fd).startswith("/memfd:"):
                    found = os.stat(base / "fd" / fd)
                    yield found.st_dev, found.st_ino
        for line in (base / "maps").read_text().splitlines():
            fields = line.split(maxsplit=5)
            if len(fields) == 6 and fields[5].startswith("/memfd:"):
                major, minor = (int(part, 16) for part in fields[3].split(":"))
                yield os.makedev(major, minor), int(fields[4])


def _is_of(worker: str, name: str) -> bool:
    return worker.startswith(f"{name}.openfaas-fn@")


def _name(process: psutil.Process) -> str:
    try:
        return process.name()
    except psutil.Error:
        return ""
