"""The host's end of its zygotes: one for brokers, one for each environment of functions.

A zygote that dies takes its children along (they carry PDEATHSIG), so its exits are reported here as if
the kernel had; the next fork starts a fresh one.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import signal
import socket
import sys
from dataclasses import dataclass
from pathlib import Path

from functions.service import orders
from proto.types.errors import SlicewiseError
from proto.wire import frames

# Importing torch on a busy machine takes tens of seconds; a zygote that needs longer hangs.
READY_TIMEOUT_S = 120.0
FORK_TIMEOUT_S = 20.0
PACKAGE_ROOT = Path(__file__).resolve().parents[2]


@dataclass
class Child:
    """A forked process; `exit` becomes its exit code (negative: the signal)."""

    pid: int
    exit: asyncio.Future[int]

    def signal(self, number: int, group: bool = True) -> None:
        """Send a signal to it, to its whole process group by default; harmless once it is gone."""
        if self.exit.done() and not group:
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if group:
                os.killpg(self.pid, number)
            else:
                os.kill(self.pid, number)


class Zygote:
    """One zygote process, started when it is first needed. `kind` is "function" or "broker"."""

    def __init__(self, kind: str, python: Path, preimport: tuple[str, ...] = ()) -> None:
        self._kind = kind
        self._python = python
        self._preimport = preimport
        self._lock = asyncio.Lock()
        self._process: asyncio.subprocess.Process | None = None
        self._frames: frames.FrameConnection | None = None
        self._reader: asyncio.Task[None] | None = None
        self._ready: asyncio.Future[None] | None = None
        self._ids = itertools.count(1)
        self._asked: dict[int, asyncio.Future[int]] = {}
        self._children: dict[int, Child] = {}

    async def fork(self, order: orders.FunctionOrder | orders.BrokerOrder, fds: list[int]) -> Child:
        """Fork a child that carries out `order` with these descriptors (the caller keeps and closes its own).

        Raises SlicewiseError `unavailable` when the zygote cannot be started or does not answer.
        """
        await self._running()
        assert self._frames is not None
        number = next(self._ids)
        answer: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._asked[number] = answer
        descriptor = orders.pack(order)
        try:
            await self._frames.send({"id": number}, [descriptor, *fds])
            async with asyncio.timeout(FORK_TIMEOUT_S):
                pid = await answer
        except (frames.FrameError, TimeoutError) as error:
            raise SlicewiseError("unavailable", f"The {self._kind} zygote did not answer: {error}.") from error
        finally:
            os.close(descriptor)
            self._asked.pop(number, None)
        return self._children[pid]

    async def close(self) -> None:
        """End the zygote and with it whatever it has forked."""
        if self._frames is not None:
            self._frames.close()
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()
        if self._reader is not None:
            await asyncio.wait([self._reader], timeout=5)

    async def _running(self) -> None:
        async with self._lock:
            if self._frames is not None and not self._frames.closed:
                return
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            with theirs:
                self._process = await asyncio.create_subprocess_exec(
                    str(self._python),
                    "-P",
                    "-m",
                    "functions.service.zygote",
                    self._kind,
                    str(theirs.fileno()),
                    str(os.getpid()),
                    *self._preimport,
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=sys.stderr,
                    env=_clean_environment(self._python),
                    pass_fds=(theirs.fileno(),),
                    start_new_session=True,
                )
            self._frames = frames.FrameConnection(ours)
            self._ready = asyncio.get_running_loop().create_future()
            self._reader = asyncio.create_task(self._read(self._frames), name=f"{self._kind} zygote")
            try:
                async with asyncio.timeout(READY_TIMEOUT_S):
                    await self._ready
            except (TimeoutError, frames.FrameError) as error:
                self._frames.close()
                with contextlib.suppress(ProcessLookupError):
                    self._process.send_signal(signal.SIGKILL)
                text = f"The {self._kind} zygote ({self._python}) did not start; the host's log says why."
                raise SlicewiseError("unavailable", text) from error

    async def _read(self, connection: frames.FrameConnection) -> None:
        assert self._ready is not None
        children = self._children
        try:
            while True:
                header, fds = await connection.receive()
                frames.close_fds(fds)
                if "ready" in header:
                    self._ready.set_result(None)
                elif "exited" in header:
                    child = children.pop(header["exited"], None)
                    if child is not None and not child.exit.done():
                        child.exit.set_result(header["status"])
                else:
                    child = Child(header["pid"], asyncio.get_running_loop().create_future())
                    children[child.pid] = child
                    asked = self._asked.get(header["id"])
                    if asked is not None and not asked.done():
                        asked.set_result(child.pid)
                    else:  # nobody waits for it any more
                        child.signal(signal.SIGKILL, group=False)
        except frames.FrameError as error:
            connection.close()
            if not self._ready.done():
                self._ready.set_exception(error)
            for asked in self._asked.values():
                if not asked.done():
                    asked.set_exception(error)
            for child in children.values():
                if not child.exit.done():
                    child.exit.set_result(-signal.SIGKILL)
            children.clear()


def _clean_environment(python: Path) -> dict[str, str]:
    """What a zygote, and so every /proc/PID/environ below it, may show: nothing of the platform's."""
    kept = {name: os.environ[name] for name in ("LANG", "LC_ALL", "TZ", "LD_LIBRARY_PATH") if name in os.environ}
    path = os.pathsep.join([str(python.parent), "/usr/local/bin", "/usr/bin", "/bin"])
    return kept | {"PATH": path, "HOME": "/tmp", "PYTHONPATH": str(PACKAGE_ROOT), "PYTHONUNBUFFERED": "1"}
