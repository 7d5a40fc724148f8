"""What functions print: read without ever blocking them, kept in files that cannot grow without bound.

Each replica (instance) has a file of its own and one before it; each line carries the time it arrived.
A function that prints faster than FLOOD_BYTES_PER_S loses what is beyond, and the log says how much.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import os
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

READ_BYTES = 128 * 1024
MAX_LINE_BYTES = 64 * 1024  # of-watchdog's log_buffer_size
FLOOD_BYTES_PER_S = 4 * 1024 * 1024
FOLLOWER_LINES = 2000  # a follower slower than this misses lines rather than hold them in memory
STDERR_KEPT = 20
DEAD_KEPT = 4  # files of replicas that are gone, for whoever asks why


@dataclass(frozen=True, slots=True, order=True)
class Line:
    """One line of one instance."""

    unix_ns: int
    instance: str
    text: str


class Output:
    """The log of one replica; `feed` is called by the pipes that `attach` reads."""

    def __init__(self, log: FunctionLog, instance: str, max_bytes: int) -> None:
        self._log = log
        self._instance = instance
        self._max_bytes = max_bytes
        self._path = log.folder / f"{instance}.log"
        self._file: IO[bytes] | None = None
        self._size = 0
        self._last_ns = 0
        self._second = 0
        self._room = FLOOD_BYTES_PER_S
        self._dropped = 0
        self._readers: set[int] = set()
        self.stderr: deque[str] = deque(maxlen=STDERR_KEPT)

    def attach(self, descriptor: int, is_stderr: bool) -> None:
        """Read a pipe until its last writer has gone; the descriptor is ours from now on."""
        os.set_blocking(descriptor, False)
        partial = bytearray()
        self._readers.add(descriptor)
        asyncio.get_running_loop().add_reader(descriptor, self._read, descriptor, partial, is_stderr)

    def close(self) -> None:
        """Stop reading and close the file."""
        for descriptor in list(self._readers):
            self._detach(descriptor)
        if self._file is not None:
            self._file.close()
            self._file = None

    def _detach(self, descriptor: int) -> None:
        self._readers.discard(descriptor)
        asyncio.get_running_loop().remove_reader(descriptor)
        os.close(descriptor)

    def _read(self, descriptor: int, partial: bytearray, is_stderr: bool) -> None:
        try:
            data = os.read(descriptor, READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            if partial:
                self._line(bytes(partial), is_stderr)
            self._flush()
            self._detach(descriptor)
            return
        now = int(time.monotonic())
        if now != self._second:
            self._second, self._room = now, FLOOD_BYTES_PER_S
            if self._dropped:
                text = f"[slicewise: {self._dropped} bytes were not kept, the function prints too fast]"
                self._dropped = 0
                self._line(text.encode(), False)
        self._room -= len(data)
        if self._room < 0:
            self._dropped += len(data) + len(partial)
            partial.clear()
            return
        partial += data
        *lines, rest = bytes(partial).split(b"\n")
        for line in lines:
            self._line(line, is_stderr)
        partial[:] = rest
        while len(partial) > MAX_LINE_BYTES:
            self._line(bytes(partial[:MAX_LINE_BYTES]), is_stderr)
            del partial[:MAX_LINE_BYTES]
        self._flush()

    def note(self, text: str) -> None:
        """A line of the platform's own in the function's log."""
        self._line(text.encode(), False)
        self._flush()

    def _line(self, raw: bytes, is_stderr: bool) -> None:
        text = raw.rstrip(b"\r").replace(b"\0", b"").decode("utf-8", "replace")
        if is_stderr:
            self.stderr.append(text)
        self._last_ns = max(self._last_ns + 1, time.time_ns())
        self._write(f"{self._last_ns} {text}\n".encode("utf-8", "replace"))
        self._log.publish(Line(self._last_ns, self._instance, text))

    def _write(self, data: bytes) -> None:
        # Into the page cache, in chunks of what one read brought; a thread would cost more than the write.
        try:
            if self._file is None:
                self._path.parent.mkdir(parents=True, exist_ok=True)
                self._file = self._path.open("ab")
                self._size = self._file.tell()
            if self._size + len(data) > self._max_bytes // 2:
                self._file.close()
                self._path.replace(self._path.with_suffix(".log.1"))
                self._file = self._path.open("wb")
                self._size = 0
            self._file.write(data)
            self._size += len(data)
        except OSError:  # a full disk costs the log, never the function
            self._file = None

    def _flush(self) -> None:
        if self._file is not None:
            with contextlib.suppress(OSError):
                self._file.flush()


class FunctionLog:
    """All instances of one function, those that are gone included."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._followers: set[asyncio.Queue[Line]] = set()

    def publish(self, line: Line) -> None:
        """Hand a line to whoever follows."""
        for queue in self._followers:
            if not queue.full():
                queue.put_nowait(line)

    @contextlib.contextmanager
    def follow(self) -> Iterator[asyncio.Queue[Line]]:
        """Lines from now on, while the context lasts."""
        queue: asyncio.Queue[Line] = asyncio.Queue(FOLLOWER_LINES)
        self._followers.add(queue)
        try:
            yield queue
        finally:
            self._followers.discard(queue)

    def read(self, since_unix_ns: int, tail: int, instance: str = "") -> list[Line]:
        """Kept lines in order of time; `tail` <= 0 is all of them. Blocking: call it in a thread."""
        sources = []
        for path in sorted(self.folder.glob("*.log*")):
            name = path.name.partition(".log")[0]
            if not instance or name == instance:
                sources.append(list(_lines(path, name, since_unix_ns)))
        merged = heapq.merge(*sources)
        return list(deque(merged, maxlen=tail)) if tail > 0 else list(merged)

    def prune(self, alive: set[str]) -> None:
        """Remove the files of all but the last few instances that are gone."""
        names: dict[str, float] = {}
        for path in self.folder.glob("*.log*"):
            name = path.name.partition(".log")[0]
            if name not in alive:
                with contextlib.suppress(FileNotFoundError):
                    names[name] = max(names.get(name, 0.0), path.stat().st_mtime)
        for name in sorted(names, key=lambda name: names[name])[:-DEAD_KEPT]:
            for path in self.folder.glob(f"{name}.log*"):
                path.unlink(missing_ok=True)


def _lines(path: Path, instance: str, since_unix_ns: int) -> Iterator[Line]:
    try:
        with path.open("rb") as file:
            for raw in file:
                stamp, _, text = raw.rstrip(b"\n").partition(b" ")
                if stamp.isdigit() and int(stamp) >= since_unix_ns:
                    yield Line(int(stamp), instance, text.decode("utf-8", "replace"))
    except FileNotFoundError:
        return
