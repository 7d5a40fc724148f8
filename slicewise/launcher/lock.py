"""One launcher a state folder. The kernel gives the lock back when its holder dies, however it dies."""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path

from proto.types.errors import SlicewiseError

# `slicewise status` tries the lock for an instant to see whether somebody holds it.
_PATIENCE_S = 0.5
_STEP_S = 0.05


class Lock:
    """The held lock; the file tells the holder's pid."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd = -1

    def take(self) -> None:
        """Raises SlicewiseError `conflict` when another launcher holds it."""
        # Not inheritable: a child that outlived the launcher would hold the lock otherwise.
        self._fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        deadline = time.monotonic() + _PATIENCE_S
        while True:
            try:
                fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() < deadline:
                    time.sleep(_STEP_S)
                    continue
                os.close(self._fd)
                raise SlicewiseError(
                    "conflict",
                    f"Slicewise is already running on {self._path.parent} (pid {_pid(self._path)}); "
                    "`slicewise status` shows it, `slicewise down` stops it.",
                ) from None
        os.ftruncate(self._fd, 0)
        os.write(self._fd, f"{os.getpid()}\n".encode())

    def release(self) -> None:
        """Give it back; only after every child has ended."""
        os.close(self._fd)


def holder(path: Path) -> int | None:
    """The pid of the launcher that holds the lock, None if nobody does."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _pid(path)
    finally:
        os.close(fd)
    return None


def _pid(path: Path) -> int:
    try:
        return int(path.read_text().strip() or 0)
    except ValueError:
        return 0
