"""Zygotes: one process a Python interpreter, with torch imported, from which workers are forked in milliseconds.

A zygote that dies takes its workers with it; another is started, with back-off, and the workers' ends
are seen one by one through their pidfds, as any other end of a worker.
"""

from __future__ import annotations

import asyncio
import ctypes
import itertools
import logging
import os
import signal
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from proto.types.errors import SlicewiseError
from proto.types.models import runs_models_of
from proto.wire import frames

_log = logging.getLogger(__name__)

FORK_TIMEOUT_S = 60.0  # the first fork waits for the import of torch, on a machine that starts much else
VERSION_TIMEOUT_S = 30.0
BACKOFF_S = (0.1, 0.5, 1.0, 2.0, 5.0)
STABLE_S = 30.0  # a zygote that lived so long starts its back-off anew
MAX_EXITS = 4096
_ROOT = Path(__file__).resolve().parents[2]
_ASK = "import sys,importlib.metadata as m;print(sys.version_info[0],sys.version_info[1],m.version('torch'))"
_libc = ctypes.CDLL(None, use_errno=True)
_PR_SET_PDEATHSIG = 1


def _die_with_parent() -> None:
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


class Zygote:
    """One interpreter's zygote, started on first use and again whenever it has died."""

    def __init__(self, python: str, cpu: bool = False, hide: Sequence[Path] = ()) -> None:
        self.python = python
        self._flags = ["--cpu"] if cpu else []
        for folder in hide:
            self._flags += ["--hide", str(folder)]
        self.version = ""  # "3.11/2.13.0+cpu"
        self.missing: list[str] = []
        self.restarts = -1
        self.pid = 0
        self._connection: frames.FrameConnection | None = None
        self._process: asyncio.subprocess.Process | None = None
        self._starting = asyncio.Lock()
        self._answers: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._ids = itertools.count(1)
        self._exits: dict[int, asyncio.Future[int]] = {}
        self._keeper: asyncio.Task[None] | None = None
        self._closing = False

    async def identify(self) -> str:
        """The interpreter's "PYTHON/TORCH", asked of its metadata: torch is not imported for it."""
        if not self.version:
            try:
                process = await asyncio.create_subprocess_exec(
                    self.python, "-c", _ASK, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
                )
                async with asyncio.timeout(VERSION_TIMEOUT_S):
                    output, _ = await process.communicate()
                major, minor, torch = output.decode().split()
            except (OSError, ValueError, TimeoutError) as error:
                raise SlicewiseError("not_ready", f"{self.python} has no torch to run models with.") from error
            self.version = f"{major}.{minor}/{torch}"
        return self.version

    def keep(self) -> None:
        """Start it now, and again whenever it dies."""
        if self._keeper is None:
            self._keeper = asyncio.create_task(self._keep())

    async def _keep(self) -> None:
        loop = asyncio.get_running_loop()
        failures = 0
        while not self._closing:
            started = loop.time()
            try:
                await self._start()
                await self._listen()
            except (OSError, SlicewiseError) as error:
                _log.warning("zygote %s does not start: %s", self.python, error)
            await self._end()
            if self._closing:
                return
            failures = 0 if loop.time() - started > STABLE_S else failures + 1
            pause = BACKOFF_S[min(failures, len(BACKOFF_S) - 1)]
            _log.warning("zygote %s has ended; another starts in %.1f s", self.python, pause)
            await asyncio.sleep(pause)

    async def _start(self) -> None:
        await self.identify()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        environment = {k: v for k, v in os.environ.items() if not k.startswith("SLICEWISE_")}
        if self.python != sys.executable:
            environment["PYTHONPATH"] = str(_ROOT)
        # Nothing of CUDA may be seen before a fork; each worker is told its own device.
        environment["CUDA_VISIBLE_DEVICES"] = ""
        try:
            self._process = await asyncio.create_subprocess_exec(
                self.python, "-m", "gpu_manager.worker", "--socket-fd", str(theirs.fileno()), *self._flags,
                pass_fds=[theirs.fileno()], stdin=asyncio.subprocess.DEVNULL, stdout=sys.stderr,
                env=environment, preexec_fn=_die_with_parent, start_new_session=True,
            )  # fmt: skip
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        self.pid = self._process.pid
        self.restarts += 1
        self._connection = frames.FrameConnection(ours)

    async def _listen(self) -> None:
        assert self._connection is not None
        while True:
            try:
                header, fds = await self._connection.receive()
            except frames.FrameError:
                return
            frames.close_fds(fds)
            if "exited" in header:
                waiter = self._exits.pop(int(header["exited"]), None)
                if waiter is not None and not waiter.done():
                    waiter.set_result(int(header.get("status", 0)))
            elif "id" in header:
                answer = self._answers.pop(int(header["id"]), None)
                if answer is not None and not answer.done():
                    answer.set_result(header)

    async def _end(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        gone = SlicewiseError("worker_died", "The process that workers are forked from has ended.")
        for answer in self._answers.values():
            if not answer.done():
                answer.set_exception(gone)
        self._answers.clear()
        for waiter in self._exits.values():
            waiter.cancel()
        self._exits.clear()
        process, self._process, self.pid = self._process, None, 0
        if process is not None:
            if process.returncode is None:
                process.kill()
            await process.wait()

    async def fork(self, order: dict[str, Any], package: int) -> tuple[int, int, socket.socket]:
        """A new worker: (pid, its pidfd, our end of its socket). Raises SlicewiseError `not_ready`.

        `package` is the descriptor of the package that it will load first: its library modules may have
        been imported already, by a nursery that the zygote keeps.
        """
        self.keep()
        loop = asyncio.get_running_loop()
        until = loop.time() + FORK_TIMEOUT_S
        while self._connection is None:
            if loop.time() > until or self._closing:
                raise SlicewiseError("not_ready", f"No worker can be started: {self.python} does not come up.", 1.0)
            await asyncio.sleep(0.02)
        number = next(self._ids)
        answer: asyncio.Future[dict[str, Any]] = loop.create_future()
        self._answers[number] = answer
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            try:
                await self._connection.send({"op": "fork", "id": number, **order}, [theirs.fileno(), package])
            finally:
                theirs.close()
            async with asyncio.timeout_at(until):
                header = await answer
            if not header.get("ok"):
                raise SlicewiseError("not_ready", f"No worker can be started: {header['error']['message']}")
            pid = int(header["pid"])
            self.missing = list(header.get("missing") or [])
            return pid, os.pidfd_open(pid), ours
        except BaseException as error:
            ours.close()  # a child that was born all the same ends when its socket does
            if isinstance(error, TimeoutError | frames.FrameError | ProcessLookupError):
                raise SlicewiseError("not_ready", f"No worker could be forked from {self.python}.", 1.0) from error
            raise
        finally:
            self._answers.pop(number, None)

    def exit_status(self, pid: int) -> asyncio.Future[int]:
        """Exit code of a worker, or minus its signal, when the zygote says it; cancelled if it never will."""
        waiter: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        if self._connection is None:
            waiter.cancel()
        elif len(self._exits) < MAX_EXITS:
            self._exits[pid] = waiter
        return waiter

    async def close(self) -> None:
        """End it and all its workers."""
        self._closing = True
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.gather(self._keeper, return_exceptions=True)
        await self._end()


class Zygotes:
    """The interpreters of this node, of which no slice is a GPU's if `cpu`; workers see nothing of `hide`."""

    def __init__(self, pythons: Sequence[str], cpu: bool, hide: Sequence[Path] = ()) -> None:
        self.all = [Zygote(python, cpu, hide) for python in dict.fromkeys(pythons)]

    async def start(self, *, now: bool) -> None:
        """Identify all of them, and start them if `now`; raises SlicewiseError if none can run models."""
        answers = await asyncio.gather(*(zygote.identify() for zygote in self.all), return_exceptions=True)
        failures = [answer for answer in answers if isinstance(answer, BaseException)]
        for failure in failures:
            _log.warning("%s", failure)
        if len(failures) == len(self.all):
            raise failures[0]
        for zygote in self.all:
            if now and zygote.version:
                zygote.keep()

    def versions(self) -> list[str]:
        """ "PYTHON/TORCH" of each."""
        return [zygote.version for zygote in self.all if zygote.version]

    def matching(self, python: str, torch: str) -> Zygote:
        """The zygote for a model's Python and torch; builds of one torch version count as the same."""
        for zygote in self.all:
            if runs_models_of(zygote.version, python, torch):
                return zygote
        raise SlicewiseError(
            "unprocessable",
            f"The model needs Python {python} with torch {torch}; this node has {', '.join(self.versions())}.",
        )

    async def close(self) -> None:
        """End all of them."""
        await asyncio.gather(*(zygote.close() for zygote in self.all))
