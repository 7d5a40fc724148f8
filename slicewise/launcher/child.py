"""One service kept alive: started, waited for, restarted with back-off, ended with all it has started."""

from __future__ import annotations

import asyncio
import contextlib
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
from slicewise.launcher.program import Program
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
        self._probe = probe
        self._stopping = False
        self._wake = asyncio.Event()
        self._program: Program | None = None

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
        program = self._program
        if program is None or not program.running:
            return
        program.signal(signal.SIGTERM)
        try:
            await asyncio.wait_for(program.wait(), STOP_TIMEOUT_S)
        except TimeoutError:
            program.kill_group()
            await program.wait()

    async def _live(self) -> tuple[str, int]:
        """One life: from start to end; (why it ended, exit status)."""
        self.entry.started = time.time()
        self._show(board.STARTING)
        told = asyncio.Event()
        async with self._orphans.forking:
            program = self._spawn(told)
            self._orphans.serving(program.pid)
        self._program = program
        self.entry.pid = program.pid
        self._changed()
        if self._stopping:  # told to while it was being started
            program.kill_group()
        reading = asyncio.create_task(self._become_ready(told))
        ended = asyncio.create_task(program.wait())
        why = ""
        try:
            await asyncio.wait([reading, ended], timeout=READY_TIMEOUT_S, return_when=asyncio.FIRST_COMPLETED)
            if reading.done() and not reading.exception():
                self.entry.ready = time.time()
                self.ready.set()
                self._show(board.READY)
            elif not ended.done():
                why = str(reading.exception()) if reading.done() else f"not ready within {READY_TIMEOUT_S:g} s"
                program.kill_group()
            status = await ended
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
            # What it had started goes with it.
            program.kill_group()
            self._orphans.ended(program.pid)
            await self._orphans.sweep()
        self.entry.pid, self.entry.ready = 0, 0.0
        ending = f"ended by {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"
        return why or ending, status

    def _spawn(self, told: asyncio.Event) -> Program:
        def heard(line: bytes) -> bool:
            if _is_ready(line):
                told.set()
            return told.is_set()

        log = os.open(self._log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            on_line = heard if self.service.prints_ready else None
            return Program(self.service.command, log, on_line, self.service.folder)
        finally:
            os.close(log)

    async def _become_ready(self, told: asyncio.Event) -> None:
        if self._probe is not None:
            await self._probe()
        if self.service.prints_ready:
            await told.wait()

    def _show(self, state: str) -> None:
        self.entry.state = state
        self._changed()


def _is_ready(line: bytes) -> bool:
    try:
        told = json.loads(line)
    except ValueError:
        return False
    return isinstance(told, dict) and told.get("ready") is True
