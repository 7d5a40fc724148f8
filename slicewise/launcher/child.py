"""One service kept alive: started, waited for, restarted with back-off, ended with all it has started."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import json
import os
import random
import signal
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from slicewise.launcher import board, logs
from slicewise.launcher.board import Entry
from slicewise.launcher.orphans import Orphans
from slicewise.launcher.services import Service

FIRST_BACKOFF_S = 0.1
LAST_BACKOFF_S = 10.0
# Whoever ran this long is well: the next end starts with the short wait again.
WELL_AFTER_S = 30.0
READY_TIMEOUT_S = 120.0
# Services promise to end within 5 s of SIGTERM.
STOP_TIMEOUT_S = 7.0
# A service that never became ready is given up after so many attempts; one that has been ready never is.
START_ATTEMPTS = 3
BAD_SETTINGS = 2  # exit status of a service that was told something wrong: trying again is no use

_ERROR_CHARACTERS = 600
_LINE_BYTES = 64 * 1024
_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)


def _tie(parent: int) -> Callable[[], None]:
    """Between fork and exec: have the kernel kill the child when the launcher dies, however it dies."""

    def tie() -> None:
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)  # it died before the wish was heard

    return tie


class Child:
    """Runs one service until told to stop. `entry` is what the board shows of it."""

    def __init__(
        self,
        service: Service,
        log: Path,
        changed: Callable[[], None],
        orphans: Orphans,
        probe: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """`probe` tells that a service which prints no ready line serves; it returns or raises."""
        self.service = service
        self.entry = Entry(service.name)
        self.ready = asyncio.Event()  # set at the first time it was ready
        self.failed: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._log = log
        self._changed = changed
        self._orphans = orphans
        self._draining: asyncio.Task[None] | None = None
        self._probe = probe
        self._stopping = False
        self._wake = asyncio.Event()
        self._process: asyncio.subprocess.Process | None = None

    async def run(self) -> None:
        """Start the service, and again whenever it ends, until `stop`."""
        attempts, backoff_s = 0, FIRST_BACKOFF_S
        while not self._stopping:
            began = time.monotonic()
            attempts += 1
            why, status = await self._live()
            if self._stopping:
                break
            self.entry.error = "; ".join([why, *logs.tail(self._log)])[:_ERROR_CHARACTERS]
            if not self.ready.is_set() and (status == BAD_SETTINGS or attempts >= START_ATTEMPTS):
                self._show(board.STOPPED)
                self.failed.set_result(f"{self.service.name} does not start: {self.entry.error}")
                return
            if time.monotonic() - began > WELL_AFTER_S:
                backoff_s = FIRST_BACKOFF_S
            self.entry.restarts += 1
            self._show(board.RESTARTING)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), backoff_s * random.uniform(0.8, 1.2))
            backoff_s = min(backoff_s * 2, LAST_BACKOFF_S)
        self._show(board.STOPPED)

    async def stop(self) -> None:
        """End it: SIGTERM, then SIGKILL to its whole process group."""
        self._stopping = True
        self._wake.set()
        process = self._process
        if process is None or process.returncode is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        try:
            await asyncio.wait_for(process.wait(), STOP_TIMEOUT_S)
        except TimeoutError:
            _kill_group(process.pid)
            await process.wait()

    async def _live(self) -> tuple[str, int]:
        """One life: from start to end; (why it ended, exit status)."""
        self.entry.started = time.time()
        self._show(board.STARTING)
        async with self._orphans.forking:
            process = await self._spawn()
            self._orphans.serving(process.pid)
        self._process = process
        self.entry.pid = process.pid
        self._changed()
        if self._stopping:  # told to while it was being started
            process.kill()
        reading = asyncio.create_task(self._become_ready(process))
        ended = asyncio.create_task(process.wait())
        why = ""
        try:
            await asyncio.wait([reading, ended], timeout=READY_TIMEOUT_S, return_when=asyncio.FIRST_COMPLETED)
            if reading.done() and not reading.exception():
                self.entry.ready = time.time()
                self.ready.set()
                self._show(board.READY)
            elif not ended.done():
                why = str(reading.exception()) if reading.done() else f"not ready within {READY_TIMEOUT_S:g} s"
                process.kill()
            await ended
        finally:
            reading.cancel()
            # What it had started goes with it.
            _kill_group(process.pid)
            self._orphans.ended(process.pid)
            await self._orphans.sweep()
            await asyncio.gather(reading, return_exceptions=True)
        status = process.returncode or 0
        self.entry.pid, self.entry.ready = 0, 0.0
        ending = f"ended by {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"
        return why or ending, status

    async def _spawn(self) -> asyncio.subprocess.Process:
        log = os.open(self._log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            return await asyncio.create_subprocess_exec(
                *self.service.command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE if self.service.prints_ready else log,
                stderr=log,
                start_new_session=True,
                preexec_fn=_tie(os.getpid()),
                limit=_LINE_BYTES,
            )
        finally:
            os.close(log)

    async def _become_ready(self, process: asyncio.subprocess.Process) -> None:
        if self._probe is not None:
            await self._probe()
        if process.stdout is None:
            return
        while True:
            line = await process.stdout.readline()
            if not line:
                # It ends, or it has closed its stdout; the wait for the process tells.
                await asyncio.Event().wait()
            if _is_ready(line):
                break
        # What it prints later is of no use, but must not block it.
        self._draining = asyncio.create_task(_drain(process.stdout))

    def _show(self, state: str) -> None:
        self.entry.state = state
        self._changed()


async def _drain(stream: asyncio.StreamReader) -> None:
    while await stream.read(_LINE_BYTES):
        pass


def _is_ready(line: bytes) -> bool:
    try:
        told = json.loads(line)
    except ValueError:
        return False
    return isinstance(told, dict) and told.get("ready") is True


def _kill_group(pid: int) -> None:
    # The group bears the leader's number, which no other process can get while the group has members.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
