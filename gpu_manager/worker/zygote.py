"""Forks workers: torch is imported once, here, and every worker starts with it in a few milliseconds.

Single-threaded, no CUDA context, not one tensor operation before a fork (OpenMP's pool does not
survive one). It never waits for a worker: a frozen worker is its GPU manager's business, which has
the pid. Workers' ends are seen through pidfds and reported unasked.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import selectors
import signal
import socket
import sys
import time
from typing import Any

from proto.wire import frames

from . import birth
from .nursery import MAX_NURSERIES, Nursery, wanted_modules
from .spare import Spare

# Sets of modules that could not be imported ahead, remembered so that it is tried once.
MAX_HOPELESS = 256
# The worker that has just been made has its load to do first.
SPARE_AFTER_S = 0.02


def prepare() -> None:
    """Import what every worker needs, so that forks share it."""
    import torch

    from . import serving

    with contextlib.suppress(ImportError):
        importlib.import_module("numpy.random")  # a fork seeds it
    del torch, serving
    threads = len(os.listdir("/proc/self/task"))
    if threads != 1:
        print(f"zygote: {threads} threads after importing torch; forks may hang", file=sys.stderr)
    gc.collect()
    gc.freeze()


class Zygote:
    """One zygote and its children; `serve` is the whole life of it. A nursery is one, too."""

    def __init__(self, manager: socket.socket, missing: list[str], cpu: bool, hide: list[str]) -> None:
        self._manager = manager
        self._hide = hide
        self._missing = missing
        self._cpu = cpu
        self._selector = selectors.DefaultSelector()
        self._selector.register(manager, selectors.EVENT_READ, self._hear_manager)
        self._children: dict[int, int] = {}  # pid -> pidfd
        self._nurseries: dict[tuple[str, ...], Nursery] = {}
        self._hopeless: set[tuple[str, ...]] = set()
        self._spare: Spare | None = None
        self._unnamed: set[int] = set()  # children that are nobody's worker yet
        self._spare_at: float | None = time.monotonic()
        self._retiring = False
        self._over = False

    def serve(self) -> int:
        """Answer frames until the GPU manager closes its end; children die with this process."""
        while not self._over and not (self._retiring and not self._children):
            for key, _ in self._selector.select(self._patience()):
                key.data()
            for nursery in [n for n in self._nurseries.values() if not n.ready and time.monotonic() > n.until]:
                os.kill(nursery.pid, signal.SIGKILL)
                nursery.until = float("inf")  # its end is read like any other
            self._refill()
        return 0

    def _patience(self) -> float | None:
        waits = [n.until for n in self._nurseries.values() if not n.ready and n.until != float("inf")]
        if self._spare_at is not None:
            waits.append(self._spare_at)
        return max(0.0, min(waits) - time.monotonic()) if waits else None

    def _hear_manager(self) -> None:
        try:
            header, fds = frames.receive(self._manager)
        except (frames.FrameError, OSError):
            self._over = True
            return
        if header.get("op") == "retire":
            self._retiring = True
            if self._spare is not None:
                self._spare.close()
                self._spare = None
            return
        number = header.get("id")
        try:
            if header.get("op") != "fork":
                raise ValueError(f"a zygote knows no {header.get('op')!r}")
            if len(fds) not in (1, 2):
                raise ValueError("fork needs one descriptor: the worker's end of a socket pair")
            nursery = self._nursery(header, fds[1]) if len(fds) == 2 else None
            if nursery is not None:
                nursery.order(header, fds[0])
            else:
                self._answer_fork(header, fds[0])
        except (ValueError, OSError) as error:
            self._say({"id": number, "ok": False, "error": {"code": "internal", "message": str(error)}})
        finally:
            frames.close_fds(fds)

    def _answer_fork(self, order: dict[str, Any], end: int) -> None:
        pid = self._worker(order, end)
        self._spare_at = time.monotonic() + SPARE_AFTER_S
        self._say({"id": order.get("id"), "ok": True, "pid": pid, "missing": self._missing})

    def _say(self, header: dict[str, Any]) -> None:
        try:
            frames.send(self._manager, header)
        except OSError:
            self._over = True

    def _nursery(self, order: dict[str, Any], package_fd: int) -> Nursery | None:
        """The nursery for a package, started if it is the first of its kind; None where a plain fork does."""
        modules = wanted_modules(package_fd, [str(path) for path in order.get("sys_path") or []])
        if not modules or modules in self._hopeless:
            return None
        nursery = self._nurseries.get(modules)
        if nursery is None:
            if len(self._nurseries) >= MAX_NURSERIES:
                oldest = min(self._nurseries.values(), key=lambda n: n.used)
                oldest.retire()
                del self._nurseries[oldest.modules]
            nursery = Nursery(modules, self._serve_nursery, self._descriptors())
            self._nurseries[modules] = nursery
            self._selector.register(nursery.socket, selectors.EVENT_READ, lambda: self._hear_nursery(nursery))
        return None if nursery.full else nursery

    def _serve_nursery(self, sock: socket.socket) -> int:
        return Zygote(sock, self._missing, self._cpu, self._hide).serve()

    def _hear_nursery(self, nursery: Nursery) -> None:
        try:
            header, fds = frames.receive(nursery.socket)
        except (frames.FrameError, OSError):
            self._lose(nursery)
            return
        frames.close_fds(fds)
        if nursery.heard(header):
            self._say(header)

    def _lose(self, nursery: Nursery) -> None:
        """A nursery has ended: what it had not answered is forked from here."""
        self._selector.unregister(nursery.socket)
        nursery.socket.close()
        os.waitpid(nursery.pid, 0)
        if self._nurseries.get(nursery.modules) is nursery:
            del self._nurseries[nursery.modules]
        if not nursery.ready and len(self._hopeless) < MAX_HOPELESS:
            self._hopeless.add(nursery.modules)
        for order, end in nursery.give_back():
            self._answer_fork(order, end)
            os.close(end)

    def _descriptors(self) -> list[int]:
        """What a fork inherits of ours and must not keep: its open ends would hide a death."""
        sockets = [self._manager.fileno(), self._selector.fileno()]
        return [*sockets, *(n.socket.fileno() for n in self._nurseries.values()), *self._children.values()]

    def _worker(self, order: dict[str, Any], end: int) -> int:
        """The pid of a worker for this order, which has its end of a socket."""
        spare, self._spare = self._spare, None
        if spare is not None:
            try:
                spare.become(order, end)
            except OSError:
                spare = None  # somebody killed it; its end is reaped
        if spare is None:
            spare = self._make_spare()
            spare.become(order, end)
        self._unnamed.discard(spare.pid)
        return spare.pid

    def _make_spare(self) -> Spare:
        spare = Spare(self._missing, self._cpu, self._hide)
        self._unnamed.add(spare.pid)
        self._children[spare.pid] = spare.pidfd
        self._selector.register(spare.pidfd, selectors.EVENT_READ, lambda: self._reap(spare.pid))
        return spare

    def _refill(self) -> None:
        """Make the next spare when there was nothing else to do for a while."""
        if self._spare_at is None or time.monotonic() < self._spare_at:
            return
        self._spare_at = None
        if self._spare is None and not self._retiring:
            try:
                self._spare = self._make_spare()
            except OSError as error:
                print(f"zygote: no process can be made ahead: {error}", file=sys.stderr)

    def _reap(self, pid: int) -> None:
        _, status = os.waitpid(pid, os.WNOHANG)
        pidfd = self._children.pop(pid)
        self._selector.unregister(pidfd)
        os.close(pidfd)
        if pid in self._unnamed:
            self._unnamed.discard(pid)
            if self._spare is not None and self._spare.pid == pid:
                self._spare.close()
                self._spare = None
            return
        self._say({"exited": pid, "status": os.waitstatus_to_exitcode(status)})


def serve(manager: socket.socket, cpu: bool, hide: list[str]) -> int:
    """Serve `manager` until it closes; workers see nothing below the folders in `hide`.

    SIGINT is for whoever started us, SIGTERM ends us at once.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    return Zygote(manager, birth.impossible(), cpu, hide).serve()
