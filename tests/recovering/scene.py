"""A platform with things under way: calls that run in threads, models that are held and let go by files.

Models and handlers leave their traces in their own /tmp, which is reached through /proc. Every wait here is for
something that can be seen; its limit only ends a test that hangs.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import grpc
import psutil

from proto.wire.generated import slicewise_pb2 as pb
from proto.wire.generated import slicewise_pb2_grpc as rpc
from tests.platform_functions import process_name
from tests.platform_rig import Platform, Reply

FUNCTIONS = Path(__file__).parent / "functions"
HANG_S = 90.0
IDLE = {"bindings": 0, "calls": 0, "loads": 0, "turn": 0, "slot": 0, "unloading": 0}


class Scene:
    """Wraps one platform; `close` lets everything go."""

    def __init__(self, platform: Platform) -> None:
        self.platform = platform
        self._pool = ThreadPoolExecutor(64)
        self._built: set[str] = set()
        self._numbers = 0

    def close(self) -> None:
        """End the threads; their calls have timeouts of their own."""
        self._pool.shutdown(cancel_futures=True)

    # ------------------------------------------------------------------ functions

    def deploy(self, name: str, image: str = "", *, gpu: bool = True, ready: bool = True, **variables: str) -> str:
        """A function of one of the bench's handlers; returns its name."""
        image = image or name
        if image not in self._built:
            self.platform.cli("build", str(FUNCTIONS / image), "-t", image)
            self._built.add(image)
        labels = {"com.slicewise.gpu": "true"} if gpu else {}
        wish = {"service": name, "image": image, "labels": labels, "envVars": variables}
        answer = self.platform.system("/system/functions", "POST", wish)
        assert answer.status == 202, answer.text
        if ready:
            self.platform.wait_ready(name)
        return name

    def log(self, name: str) -> str:
        """What a function has printed of late."""
        return self.platform.cli("logs", name, "-o", "plain", "--tail", "60").stdout

    def fresh(self, stem: str) -> str:
        """A name for a trace that no other call has."""
        self._numbers += 1
        return f"{stem}-{self._numbers}"

    # ------------------------------------------------------------------ calls

    def call(self, function: str, wish: Any = None, timeout_s: float = HANG_S) -> Reply:
        """One call with a JSON body, waited for."""
        body = b"" if wish is None else wish if isinstance(wish, bytes) else json.dumps(wish).encode()
        return self.platform.call(function, body, timeout_s=timeout_s)

    def begin(self, function: str, wish: Any = None) -> Future[Reply]:
        """The same in a thread."""
        return self._pool.submit(self.call, function, wish)

    def hold(self, function: str = "traced") -> tuple[str, Future[Reply]]:
        """A call whose model runs and waits; (its name, its answer to come)."""
        name = self.fresh("held")
        answer = self.begin(function, {"name": name, "hold": True})
        self.platform.wait(lambda: answer.done() or self.ran(name), f"the call {name} does not reach its model")
        assert not answer.done(), answer.result().text
        return name, answer

    def let_go(self, name: str, answer: Future[Reply]) -> Reply:
        """Let a held call end, wherever it runs by now; its answer."""

        def done() -> bool:
            for folder in self._worker_folders():
                (folder / f"go-{name}").touch()
            return answer.done()

        self.platform.wait(done, f"the held call {name} does not end")
        return answer.result()

    def occupy(self, function: str = "traced") -> str:
        """A model call that belongs to no request, and so has no deadline, runs and waits; its name."""
        name = self.fresh("behind")
        assert self.call(function, {"name": name, "behind": True}).text == "begun"
        for folder in self._function_folders():
            (folder / f"begin-{name}").touch()
        self.platform.wait(lambda: self.ran(name), f"the call {name} does not reach its model")
        return name

    def release(self, name: str) -> None:
        """Let such a call end; `settled` sees that it has."""
        for folder in self._worker_folders():
            (folder / f"go-{name}").touch()

    def hang_up(self, function: str, wish: Any) -> socket.socket:
        """Send a whole request on a connection of its own; closing that is leaving."""
        where = urlsplit(self.platform.url)
        body = json.dumps(wish).encode()
        client = socket.create_connection((where.hostname, where.port), timeout=HANG_S)
        head = f"POST /function/{function} HTTP/1.1\r\nHost: bench\r\nContent-Length: {len(body)}\r\n\r\n"
        client.sendall(head.encode() + body)
        return client

    # ------------------------------------------------------------------ traces

    def ran(self, name: str) -> bool:
        """Whether a model call of this name has begun on any slice."""
        return any(True for _ in self._traces(name))

    def runs(self, name: str) -> list[tuple[int, str]]:
        """(pid, slice) of every living worker in which the call of this name has begun."""
        running = {pid for pid, trace in self._traces(name)}
        if not running:
            return []
        return [
            (worker["pid"], piece["id"])
            for node in self._nodes()
            for piece in self._status(node).get("slices", [])
            for worker in piece["workers"]
            if worker["pid"] in running
        ]

    def said(self, trace: str) -> bool:
        """Whether a handler has left this trace in its own /tmp."""
        return any((folder / trace).exists() for folder in self._function_folders())

    def _function_folders(self) -> Iterator[Path]:
        return (folder for _, name, folder in self._folders() if not name.startswith("sw"))

    def _traces(self, name: str) -> Iterator[tuple[int, Path]]:
        folders = ((pid, folder) for pid, process, folder in self._folders() if process.startswith("sw:"))
        return ((pid, folder / f"ran-{name}") for pid, folder in folders if (folder / f"ran-{name}").exists())

    def _worker_folders(self) -> Iterator[Path]:
        return (folder for _, name, folder in self._folders() if name.startswith("sw:"))

    def _folders(self) -> Iterator[tuple[int, str, Path]]:
        """(pid, name, its /tmp) of every process that has one of its own."""
        shared = os.stat("/tmp").st_dev, os.stat("/tmp").st_ino
        for process in self.platform.processes():
            folder = Path(f"/proc/{process.pid}/root/tmp")
            with contextlib.suppress(OSError, psutil.Error):  # it may be going
                found = folder.stat()
                if (found.st_dev, found.st_ino) != shared:
                    yield process.pid, process_name(process), folder

    # ------------------------------------------------------------------ what is under way

    def state(self) -> dict[str, Any]:
        """The scheduler's state; {} while it cannot be had."""
        answer = self.platform.system("/system/scheduler/state")
        return dict(answer.json()) if answer.status == 200 else {}

    def queued(self, count: int) -> None:
        """Wait until so many requests wait unbound."""
        self.platform.wait(lambda: self.state().get("global_queue") == count, f"{count} requests do not queue")

    def waiting(self, count: int) -> None:
        """Wait until so many requests wait, unbound or behind another on a slice."""

        def there() -> bool:
            state = self.state()
            return bool(state) and state["global_queue"] + sum(s["local_queue"] for s in state["slices"]) == count

        self.platform.wait(there, f"{count} requests do not wait")

    def counts(self, node: str = "local") -> list[dict[str, int]]:
        """What the GPU manager has under way, slice by slice; [] while it cannot be asked."""
        return [piece["counts"] for piece in self._status(node).get("slices", [])]

    def _nodes(self) -> list[str]:
        names = self.platform.board["addresses"]
        return [name.partition("-")[2] for name in names if name.startswith("gpu_manager-") and "metrics" not in name]

    def _status(self, node: str) -> dict[str, Any]:
        """The GPU manager's own word; {} while it cannot be asked."""
        port = self.platform.board["addresses"][f"gpu_manager-{node}"]
        token = (self.platform.state_dir / "keys" / "cli.token").read_text().strip()
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            try:
                told = rpc.GpuManagerStub(channel).GetStatus(
                    pb.Empty(), metadata=(("authorization", f"Bearer {token}"),), timeout=5
                )
            except grpc.RpcError:
                return {}
        return dict(json.loads(told.text))

    def settled(self) -> None:
        """Wait until nothing is bound, queued or running anywhere."""

        def still() -> bool:
            state, counts = self.state(), self.counts()
            if not state or not counts:
                return False
            quiet = not state["bindings"] and not state["global_queue"] and not state["parked"]
            return quiet and all(count == IDLE for count in counts)

        try:
            self.platform.wait(still, "")
        except AssertionError:
            raise AssertionError(
                f"something is left under way: {json.dumps(self.state())[:3000]} {self.counts()}\n"
                f"{self.platform.log_tails()}"
            ) from None
