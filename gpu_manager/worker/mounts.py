"""What a worker sees of the node's files: a /tmp of its own, and nothing below folders that only root may enter.

Python itself may live below such a folder (/root); it becomes an empty one in which what is needed, and nothing
else, is mounted back. The same goes for /tmp and for the platform's own folders. /tmp, and wherever else everybody may
write, is in memory and of bounded size. Most of this is done before it is known whose worker it will be.
"""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

_MS_BIND = 0x1000
_MS_NOSUID_NODEV = 0x2 | 0x4
_MS_NOEXEC = 0x8
_MS_PRIVATE_RECURSIVE = 0x40000 | 0x4000
# A worker that fills its /tmp must not take the node's memory with it.
_TMP_OPTIONS = b"size=256m,mode=1777"
_CLOSED_OPTIONS = b"size=1m,mode=755"
_SHARED = {"/var/tmp": b"size=64m,mode=1777", "/dev/shm": b"size=256m,mode=1777", "/run/lock": _CLOSED_OPTIONS}

_libc = ctypes.CDLL(None, use_errno=True)


class Covers:
    """The folders that this process, in a mount namespace of its own, has covered; every step raises OSError."""

    def __init__(self, needed: list[str], hide: list[str]) -> None:
        """See nothing of the folders in `hide` but what is needed."""
        real = [os.path.realpath(path) for path in needed if path]
        _mount(b"none", "/", None, _MS_PRIVATE_RECURSIVE, None, "making mounts private")
        self._beneath: dict[str, int] = {}  # covered folder -> what was there
        self._kept: list[str] = []
        self._cover("/tmp", _TMP_OPTIONS)
        hidden = {os.path.realpath(folder): _CLOSED_OPTIONS for folder in hide}
        for folder, options in sorted({**_SHARED, **hidden}.items()):
            if not self._cover_of(folder) and os.path.isdir(folder):
                self._cover(folder, options)
        self.keep(real)
        os.environ["TMPDIR"] = "/tmp"
        os.chdir("/tmp")

    def keep(self, needed: list[str]) -> None:
        """See that these real paths can be reached, although what lies beside them cannot."""
        for path in sorted(set(needed)):
            if any(path == kept or path.startswith(kept + "/") for kept in self._kept):
                continue
            source = self._source(path)
            if not os.path.exists(source):
                continue
            closed = self._closed_above(path)
            fd = os.open(source, os.O_PATH | os.O_CLOEXEC)
            if closed:
                self._cover(closed, _CLOSED_OPTIONS)
            if self._cover_of(path):
                _mount_back(path, fd)
            os.close(fd)
            self._kept.append(path)

    def close(self) -> None:
        """From now on what is covered cannot be reached."""
        for fd in self._beneath.values():
            os.close(fd)
        self._beneath.clear()

    def _cover_of(self, path: str) -> str:
        return next((cover for cover in self._beneath if path.startswith(cover + "/")), "")

    def _source(self, path: str) -> str:
        """Where a path can be found now, wherever it was."""
        cover = self._cover_of(path)
        return f"/proc/self/fd/{self._beneath[cover]}{path[len(cover) :]}" if cover else path

    def _cover(self, folder: str, options: bytes) -> None:
        self._beneath[folder] = os.open(folder, os.O_PATH | os.O_CLOEXEC)
        _mount(b"tmpfs", folder, b"tmpfs", _MS_NOSUID_NODEV, options, f"covering {folder}")

    def _closed_above(self, path: str) -> str:
        """The first folder on the way that others may not enter, "" if there is none or it is covered."""
        for parent in reversed(Path(path).parents):
            if str(parent) in self._beneath:
                return ""
            if not parent.stat().st_mode & 0o001:
                return str(parent)
        return ""


def own_processes() -> None:
    """See the processes of this PID namespace only; raises OSError."""
    _mount(b"proc", "/proc", b"proc", _MS_NOSUID_NODEV | _MS_NOEXEC, None, "mounting /proc")


def _mount_back(path: str, fd: int) -> None:
    if os.path.isdir(f"/proc/self/fd/{fd}"):
        os.makedirs(path, exist_ok=True)
    else:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        Path(path).touch()
    _mount(f"/proc/self/fd/{fd}".encode(), path, None, _MS_BIND, None, f"keeping {path}")


def _mount(source: bytes, target: str, kind: bytes | None, flags: int, options: bytes | None, what: str) -> None:
    if _libc.mount(source, target.encode(), kind, flags, options) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
