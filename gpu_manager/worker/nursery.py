"""Forks with more than torch in them: a second fork server for each set of libraries that models need.

Importing transformers takes longer than everything else of a load. A nursery is a fork of the zygote that
has imported the modules a package names, from the platform's own site-packages only and never a
user's code, and forks the workers of such models. It is a zygote itself and speaks its frames; the
zygote passes orders and reports through. Whatever goes wrong with one, the zygote forks as before.
"""

from __future__ import annotations

import ctypes
import importlib
import importlib.metadata
import importlib.util
import os
import signal
import socket
import sysconfig
import time
import traceback
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

from proto.wire import frames

from .sharing import package

Order = dict[str, Any]

# Each holds its libraries in memory: the least recently used one retires, once its workers have ended.
MAX_NURSERIES = 3
MAX_WAITING = 256
MAX_MODULES = 256
# An import that takes longer is not worth waiting for; its models import in their workers.
READY_TIMEOUT_S = 30.0
_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)


def wanted_modules(fd: int, sys_path: list[str]) -> tuple[str, ...]:
    """The modules that the package behind `fd` names and that this interpreter's own site-packages hold.

    Empty when a distribution has another version here, or when the function's environment brings its own.
    """
    try:
        manifest, _ = package.read_manifest(fd)
        names = sorted({str(name) for name in manifest.get("modules") or []})[:MAX_MODULES]
        for name, version in manifest.get("distributions") or []:
            if importlib.metadata.version(name) != version:
                return ()
    except (ValueError, TypeError, OSError, importlib.metadata.PackageNotFoundError):
        return ()
    tops = {name.partition(".")[0] for name in names}
    if not all(_ours(top) for top in tops):
        return ()
    if any(Path(entry, top).exists() or Path(entry, f"{top}.py").exists() for entry in sys_path for top in tops):
        return ()
    return tuple(names)


def _ours(top: str) -> bool:
    try:
        spec = importlib.util.find_spec(top)
    except (ImportError, ValueError):
        return False
    folders = {os.path.realpath(sysconfig.get_path(kind)) + os.sep for kind in ("purelib", "platlib")}
    return spec is not None and bool(spec.origin) and os.path.realpath(str(spec.origin)).startswith(tuple(folders))


class Nursery:
    """The zygote's side of one nursery: `socket` is read by the zygote, which calls `heard` with what came."""

    def __init__(self, modules: tuple[str, ...], serve: Callable[[socket.socket], int], close: list[int]) -> None:
        self.modules = modules
        self.ready = False
        self.used = time.monotonic()
        self.until = self.used + READY_TIMEOUT_S
        self._waiting: deque[tuple[Order, int]] = deque()
        self._sent: dict[Any, tuple[Order, int]] = {}
        self.socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        parent = os.getpid()
        self.pid = os.fork()
        if self.pid == 0:
            _live(theirs, modules, serve, [*close, self.socket.fileno()], parent)
        theirs.close()

    @property
    def full(self) -> bool:
        """Whether no further order may wait here."""
        return len(self._waiting) + len(self._sent) >= MAX_WAITING

    def order(self, order: Order, fd: int) -> None:
        """Fork for this order, now or once the imports are done; the descriptor is duplicated."""
        self.used = time.monotonic()
        self._waiting.append((order, os.dup(fd)))
        if self.ready:
            self._pass_on()

    def heard(self, header: dict[str, Any]) -> bool:
        """Take note of a frame from the nursery; whether the GPU manager wants to hear it."""
        if "ready" in header:
            self.ready = True
            self._pass_on()
            return False
        entry = self._sent.pop(header.get("id"), None) if "exited" not in header else None
        if entry is not None:
            os.close(entry[1])
        return True

    def _pass_on(self) -> None:
        while self._waiting:
            order, fd = self._waiting.popleft()
            self._sent[order.get("id")] = (order, fd)
            try:
                frames.send(self.socket, order, [fd])
            except OSError:
                return  # its end is read next, and gives everything back

    def give_back(self) -> list[tuple[Order, int]]:
        """Orders that were not answered, with their descriptors, for the zygote to fork itself."""
        back = [*self._sent.values(), *self._waiting]
        self._sent.clear()
        self._waiting.clear()
        return back

    def retire(self) -> None:
        """Ask it to end when its last worker has."""
        try:
            frames.send(self.socket, {"op": "retire", "id": None})
        except OSError:
            return


def _live(
    sock: socket.socket, modules: tuple[str, ...], serve: Callable[[socket.socket], int], close: list[int], parent: int
) -> None:
    """The nursery's own life, in the fork; never returns."""
    status = 1
    try:
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            return
        frames.close_fds(close)
        for name in modules:
            importlib.import_module(name)
        threads = len(os.listdir("/proc/self/task"))
        if threads != 1:
            raise RuntimeError(f"importing {', '.join(modules)} started {threads - 1} threads")
        frames.send(sock, {"ready": True})
        status = serve(sock)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)
