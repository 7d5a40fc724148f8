"""Keeps which GPU calls came in when, for replaying them later; what they carried is not kept.

The hot path appends to a bounded list and does nothing else. A task takes the list over, and a thread
writes it; when the disk is slower than the callers, calls are left out and counted. The file's format
is proto.wire.arrival_log.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import os
import time
from pathlib import Path

from prometheus_client import Counter

from gateway.service.call import Call
from proto.types.arrivals import Arrival
from proto.types.errors import SlicewiseError
from proto.wire import arrival_log

_log = logging.getLogger(__name__)

_PAUSE_S = 0.5  # between two writes: what a crash may cost
_LAST_WRITE_S = 5.0
_MOST_WAITING = 50_000  # calls in memory, some 10 MB; far more than a gateway serves between two writes


class ArrivalFile:
    """The file on disk: at most `most_bytes` a file, `files` of them in all. Used by one thread at a time."""

    def __init__(self, path: Path, most_bytes: int, files: int) -> None:
        self._path = path
        self._most_bytes = most_bytes
        self._files = files
        self._fd = -1
        self._bytes = 0

    def open(self) -> None:
        """Begin it, or go on where it ends; raises OSError, SlicewiseError where it holds something else."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        fd = os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            size = os.fstat(fd).st_size
            beginning = os.pread(fd, len(arrival_log.HEADER), 0)
            if beginning != arrival_log.HEADER:
                if not arrival_log.HEADER.startswith(beginning):
                    raise SlicewiseError("bad_request", f"record_arrivals: {self._path} holds something else.")
                os.ftruncate(fd, 0)  # the header itself was cut
                _write(fd, arrival_log.HEADER)
            elif os.pread(fd, 1, size - 1) != b"\n":
                _write(fd, b"\n")
            self._bytes = os.fstat(fd).st_size
        except BaseException:
            os.close(fd)
            raise
        self._fd = fd

    def append(self, arrivals: list[Arrival]) -> int:
        """Write them, in new files where one is full; how many they were. Raises OSError, SlicewiseError.

        After an error the file is closed; the next append opens it again and finds where it was cut.
        """
        try:
            chunk: list[bytes] = []
            for text in map(arrival_log.line, arrivals):
                if self._fd < 0:
                    self.open()
                if self._bytes + len(text) > self._most_bytes and self._bytes > len(arrival_log.HEADER):
                    self._flush(chunk)
                    self._rotate()
                chunk.append(text)
                self._bytes += len(text)
            self._flush(chunk)
        except BaseException:
            self.close()
            raise
        return len(arrivals)

    def close(self) -> None:
        """Nothing is kept open."""
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = -1

    def _flush(self, chunk: list[bytes]) -> None:
        _write(self._fd, b"".join(chunk))
        chunk.clear()

    def _rotate(self) -> None:
        self.close()
        names = [self._path, *(self._path.with_name(f"{self._path.name}.{n}") for n in range(1, self._files))]
        for newer, older in reversed(list(itertools.pairwise(names))):
            if newer.exists():
                newer.replace(older)
        self._path.unlink(missing_ok=True)  # it is still there if it is the only one
        self.open()


class Recorder:
    """Takes calls of the event loop and brings them to the file."""

    def __init__(self, file: ArrivalFile, counter: Counter) -> None:
        self._file = file
        self._kept, self._dropped = counter.labels("true"), counter.labels("false")
        self._waiting: list[Arrival] = []
        self._left_out = 0
        # The wall clock once, then the monotonic one: a clock that is set must not turn arrivals round.
        self._epoch_ns = time.time_ns() - time.monotonic_ns()
        self._task: asyncio.Task[None] | None = None
        self._failing = False
        self._stopping = asyncio.Event()

    async def start(self) -> None:
        """Open the file; raises SlicewiseError when it cannot be written."""
        try:
            await asyncio.to_thread(self._file.open)
        except OSError as error:
            raise SlicewiseError("bad_request", f"record_arrivals: cannot be written ({error}).") from error
        self._task = asyncio.create_task(self._write_on(), name="arrivals")

    def note(self, call: Call, batch: int, sla_ns: int) -> None:
        """A call has come in. Never waits, never fails."""
        if len(self._waiting) < _MOST_WAITING:
            self._waiting.append(Arrival(call.started_ns + self._epoch_ns, call.entry.full_name, batch, sla_ns))
        else:
            self._left_out += 1

    async def close(self) -> None:
        """Write what waits."""
        self._stopping.set()
        if self._task is not None:
            _, hanging = await asyncio.wait([self._task], timeout=_LAST_WRITE_S)
            if hanging:
                self._task.cancel()
                return  # a thread still has the file
        self._file.close()

    async def _write_on(self) -> None:
        last = False
        while not last:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), _PAUSE_S)
            last = self._stopping.is_set()
            await self._write()

    async def _write(self) -> None:
        taken, self._waiting = self._waiting, []
        left_out, self._left_out = self._left_out, 0
        if taken:
            try:
                self._kept.inc(await asyncio.to_thread(self._file.append, taken))
                self._failing = False
            except (OSError, SlicewiseError) as error:
                left_out += len(taken)  # some of them may be in the file; none is there twice
                if not self._failing:
                    _log.warning("arrivals are not recorded: %s", error)
                self._failing = True
        self._dropped.inc(left_out)


def _write(fd: int, data: bytes) -> None:
    while data:
        data = data[os.write(fd, data) :]
