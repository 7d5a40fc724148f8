"""A GPU function's request body, whole before anything is started: in memory while short, else in a file.

With the whole body at hand a call can be sent again, and a body that is cut in the middle starts nothing.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import BinaryIO

from gateway.service.client import Client
from proto.types.errors import SlicewiseError

_CHUNK_BYTES = 256 * 1024


class Spooled:
    """One body. `body` gives it anew for every attempt; `close` gives its room back."""

    def __init__(self, data: bytes = b"", file: BinaryIO | None = None, length: int = 0, spool: Spool | None = None):
        self._data = data
        self._file = file
        self._spool = spool
        self.length = length if file is not None else len(data)

    def body(self) -> bytes | AsyncIterator[bytes]:
        """The bytes, or an iterator over the file from its beginning."""
        return self._data if self._file is None else self._chunks(self._file)

    def close(self) -> None:
        """Forget the body."""
        if self._file is not None and self._spool is not None:
            self._spool.give_back(self._file, self.length)
            self._file = None

    async def _chunks(self, file: BinaryIO) -> AsyncIterator[bytes]:
        position = 0
        while position < self.length:
            data = await asyncio.to_thread(os.pread, file.fileno(), _CHUNK_BYTES, position)
            if not data:
                raise SlicewiseError("internal", "The spooled body is shorter than it was.")
            position += len(data)
            yield data


class Spool:
    """Takes bodies in: `memory_bytes` of each in memory, `folder_bytes` of all together in files."""

    def __init__(self, folder: Path, memory_bytes: int, folder_bytes: int, max_body_bytes: int) -> None:
        self._folder = folder
        self._memory_bytes = memory_bytes
        self._folder_bytes = folder_bytes
        self._max_body_bytes = max_body_bytes
        self.in_files = 0

    async def take(self, client: Client, announced: int | None) -> Spooled:
        """The caller's whole body; `announced` is its Content-Length.

        Raises Gone when it is cut, SlicewiseError `body_too_large` beyond the limit, `disk_full` when
        the files of all bodies have no room for it.
        """
        if announced is not None and announced > self._max_body_bytes:
            raise self._too_large()
        data, more = await client.part()
        if not more and len(data) <= self._memory_bytes:
            return Spooled(data)
        parts = [data] if data else []
        length = len(data)
        file: BinaryIO | None = None
        written = 0
        try:
            while True:
                if length > self._max_body_bytes:
                    raise self._too_large()
                if length - written > self._memory_bytes or (file is not None and not more):
                    if file is None:
                        file = await asyncio.to_thread(self._open)
                    block = b"".join(parts)
                    parts.clear()
                    self._reserve(len(block))
                    written += len(block)
                    await asyncio.to_thread(self._write, file, block)
                if not more:
                    break
                data, more = await client.part()
                length += len(data)
                parts.append(data)
        except BaseException:
            if file is not None:
                self.give_back(file, written)
            raise
        return Spooled(b"".join(parts)) if file is None else Spooled(file=file, length=length, spool=self)

    def give_back(self, file: BinaryIO, length: int) -> None:
        """Close a body's file; it has no name, so that it is gone."""
        file.close()
        self.in_files -= length

    def _open(self) -> BinaryIO:
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            return tempfile.TemporaryFile(dir=self._folder, buffering=0)  # type: ignore[return-value]
        except OSError as error:
            raise _no_room(error.strerror or "it cannot be written") from error

    def _write(self, file: BinaryIO, block: bytes) -> None:
        view = memoryview(block)
        try:
            while view:
                view = view[file.write(view) :]
        except OSError as error:
            raise _no_room(error.strerror or "it cannot be written") from error

    def _reserve(self, length: int) -> None:
        if self.in_files + length > self._folder_bytes:
            raise _no_room(f"all bodies together may take {self._folder_bytes} bytes")
        self.in_files += length

    def _too_large(self) -> SlicewiseError:
        return SlicewiseError(
            "body_too_large", f"The body is longer than the {self._max_body_bytes} bytes that a GPU function takes."
        )


def _no_room(why: str) -> SlicewiseError:
    return SlicewiseError("disk_full", f"There is no room for the request's body in the spool folder: {why}.")
