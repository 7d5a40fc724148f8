"""One platform with an agent that runs whatever a test sends it, and a victim that has what the agent wants."""

from __future__ import annotations

import contextlib
import inspect
import json
import os
import shutil
import tempfile
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import psutil

from proto.wire.generated import slicewise_pb2 as pb
from proto.wire.generated import slicewise_pb2_grpc as rpc
from tests.platform_functions import deploy, process_name
from tests.platform_rig import Platform, Reply

FUNCTIONS = Path(__file__).parent / "functions"
SECRET = "the victim's secret"
IDLE = {"bindings": 0, "calls": 0, "loads": 0, "turn": 0, "slot": 0, "unloading": 0}
Try = Callable[..., Any]


def open_platform(*flags: str) -> Platform:
    """A platform whose state lies where it does on a user's machine: not below /tmp, which nobody sees anyway."""
    before = tempfile.tempdir
    tempfile.tempdir = "/var/lib" if os.geteuid() == 0 else None
    try:
        return Platform(flags)
    finally:
        tempfile.tempdir = before


class Yard:
    """The agent is called `agent`, the victim `victim`; both are GPU functions of one image."""

    def __init__(self, platform: Platform) -> None:
        self.platform = platform

    def furnish(self) -> None:
        """Build and deploy both, and have both loaded on a slice."""
        self.platform.cli("build", str(FUNCTIONS / "agent"), "-t", "hostile-agent")
        with tempfile.TemporaryDirectory() as other:  # other content, and so another bundle
            shutil.copytree(FUNCTIONS / "agent", other, dirs_exist_ok=True)
            Path(other, "hers.txt").write_text("a file of hers")
            self.platform.cli("build", other, "-t", "hostile-victim")
        self.platform.cli("secret", "create", "hers", "--from-literal", SECRET)
        deploy(self.platform, "agent", "hostile-agent", gpu=True, envVars={"exec_timeout": "90s"})
        deploy(
            self.platform, "victim", "hostile-victim", gpu=True, secrets=["hers"],
            envVars={"VALUE": "3", "HERS": "her environment"},
        )  # fmt: skip
        self.answers()

    # ------------------------------------------------------------------ attempts

    @staticmethod
    def text(attempt: Try, *arguments: Any) -> str:
        """The program that makes an attempt."""
        source = textwrap.dedent(inspect.getsource(attempt))
        return f"from __future__ import annotations\n{source}\nfound = {attempt.__name__}(*{arguments!r})\n"

    def ask(self, wish: dict[str, str], function: str = "agent") -> Reply:
        """One call of it."""
        return self.platform.call(function, json.dumps(wish).encode())

    def here(self, attempt: Try, *arguments: Any, function: str = "agent") -> Any:
        """What an attempt got in the function's own process."""
        reply = self.ask({"here": self.text(attempt, *arguments)}, function)
        assert reply.status == 200, reply.text
        return reply.json()

    def on_slice(self, attempt: Try, *arguments: Any, function: str = "agent") -> Any:
        """What an attempt got in its worker."""
        reply = self.ask({"slice": self.text(attempt, *arguments)}, function)
        assert reply.status == 200, reply.text
        return reply.json()

    def everywhere(self, attempt: Try, *arguments: Any) -> dict[str, Any]:
        """Both, of the agent."""
        return {"function": self.here(attempt, *arguments), "worker": self.on_slice(attempt, *arguments)}

    # ------------------------------------------------------------------ what is there

    def pids(self, *beginnings: str) -> list[int]:
        """Of the platform's processes whose names begin so; of all without a name."""
        found = [(process.pid, process_name(process)) for process in self.platform.processes()]
        return [pid for pid, name in found if name and (not beginnings or name.startswith(beginnings))]

    def pid(self, name: str) -> int:
        """Of the process of this very name, the first one: `victim`, `sw-b-victim` ..."""
        return next(process.pid for process in self.platform.processes() if process_name(process) == name)

    def not_its_own(self) -> list[int]:
        """Every process of the platform that is neither the agent nor its worker."""
        own = set(self.pids("agent", "sw:agent"))
        return [pid for pid in self.pids() if pid not in own]

    def uid(self, name: str) -> int:
        """Of a function's process."""
        return int(psutil.Process(self.pid(name)).uids().real)

    def of_uid(self, uid: int) -> list[psutil.Process]:
        """All living processes of a user here: the launcher adopts those whose parents have gone."""
        found = []
        for process in self.platform.processes():
            with contextlib.suppress(psutil.Error):
                if process.uids().real == uid and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
        return found

    def port(self, name: str) -> int:
        """Of one of the platform's own services."""
        return int(self.platform.board["addresses"][name])

    def state(self, *parts: str) -> str:
        """A path in the state folder."""
        return str(self.platform.state_dir.joinpath(*parts))

    def files(self, *patterns: str) -> list[str]:
        """Files and folders of the state folder."""
        return [str(path) for pattern in patterns for path in self.platform.state_dir.glob(pattern)]

    def run_folder(self, uid: int) -> str:
        """The name of the folder of a function's replica, in which its sockets are."""
        found = [path for path in self.platform.state_dir.glob("nodes/*/host/r/*/run") if path.stat().st_uid == uid]
        return found[0].parent.name

    def status(self) -> dict[str, Any]:
        """The GPU manager's own word."""
        token = Path(self.state("keys", "cli.token")).read_text().strip()
        with grpc.insecure_channel(f"127.0.0.1:{self.port('gpu_manager-local')}") as channel:
            told = rpc.GpuManagerStub(channel).GetStatus(
                pb.Empty(), metadata=(("authorization", f"Bearer {token}"),), timeout=10
            )
        return dict(json.loads(told.text))

    def wait_gone(self, processes: list[psutil.Process]) -> None:
        """Until none of them lives."""
        _, alive = psutil.wait_procs(processes, timeout=30)
        assert not alive

    def stop_replica(self) -> None:
        """Scale the agent to zero and wait until its replica has gone."""
        replica = psutil.Process(self.pid("agent"))
        uid = self.uid("agent")
        self.platform.system("/system/scale-function/agent", "POST", {"replicas": 0})
        self.wait_gone([replica])
        self.platform.wait(lambda: not self._replicas(uid), f"left: {self._replicas(uid)}")

    def _replicas(self, uid: int) -> list[psutil.Process]:
        return [process for process in self.of_uid(uid) if not process_name(process).startswith("sw:")]

    def stop_worker(self) -> None:
        """End the agent's worker as an eviction does."""
        workers = [worker for piece in self.status()["slices"] for worker in piece["workers"]]
        process = psutil.Process(next(worker["pid"] for worker in workers if worker["key"].startswith("agent.")))
        process.kill()
        self.wait_gone([process])

    # ------------------------------------------------------------------ afterwards

    def answers(self) -> None:
        """Both functions answer, each from its own model."""
        self.platform.wait(lambda: self.ask({}).status == 200, f"the agent does not answer: {self.ask({}).text}")
        assert [self.ask({}, name).text for name in ("agent", "victim")] == ["[2.0, 2.0]", "[3.0, 3.0]"]

    def steady(self) -> Iterator[None]:
        """Runs a test between two looks: the services are the same processes, and nothing is under way or left."""
        services = {name: entry["pid"] for name, entry in self.platform.board["processes"].items()}
        victims, mine = self.pids("victim", "sw-b-victim"), self.uid("agent")
        yield
        self.answers()
        assert {name: entry["pid"] for name, entry in self.platform.board["processes"].items()} == services
        assert self.pids("victim", "sw-b-victim") == victims
        self.platform.wait(
            lambda: all(piece["counts"] == IDLE for piece in self.status()["slices"]), f"left: {self.status()}"
        )
        self.platform.wait(lambda: self._only_own(mine), f"left: {self.of_uid(mine)}")

    def _only_own(self, uid: int) -> bool:
        """Whether a function has no processes but one replica's and one worker's."""
        names = sorted(process_name(process)[:8] for process in self.of_uid(uid))
        return names == ["agent", "sw:agent"]
