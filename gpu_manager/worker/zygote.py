"""Forks workers: torch is imported once, here, and every worker starts with it in a few milliseconds.

Single-threaded, no CUDA context, not one tensor operation before a fork (OpenMP's pool does not
survive one). It never waits for a worker: a frozen worker is its GPU manager's business, which has
the pid. Workers' ends are seen through pidfds and reported unasked.
"""

from __future__ import annotations

import gc
import os
import selectors
import signal
import socket
import sys
import traceback
from typing import Any

from proto.wire import frames

from . import birth


def prepare() -> None:
    """Import what every worker needs, so that forks share it."""
    import torch

    from . import serving

    del torch, serving
    threads = len(os.listdir("/proc/self/task"))
    if threads != 1:
        print(f"zygote: {threads} threads after importing torch; forks may hang", file=sys.stderr)
    gc.collect()
    gc.freeze()


class Zygote:
    """One zygote and its children; `serve` is the whole life of it."""

    def __init__(self, manager: socket.socket) -> None:
        self._manager = manager
        self._missing = birth.impossible()
        self._selector = selectors.DefaultSelector()
        self._selector.register(manager, selectors.EVENT_READ, None)
        self._children: dict[int, int] = {}  # pid -> pidfd

    def serve(self) -> int:
        """Answer frames until the GPU manager closes its end; children die with this process."""
        while True:
            for key, _ in self._selector.select():
                if key.data is None:
                    try:
                        header, fds = frames.receive(self._manager)
                    except (frames.FrameError, OSError):
                        return 0
                    self._answer(header, fds)
                else:
                    self._reap(key.data)

    def _answer(self, header: dict[str, Any], fds: list[int]) -> None:
        number = header.get("id")
        try:
            if header.get("op") != "fork":
                raise ValueError(f"a zygote knows no {header.get('op')!r}")
            if len(fds) != 1:
                raise ValueError("fork needs one descriptor: the worker's end of a socket pair")
            pid = self._fork(header, fds[0])
            answer: dict[str, Any] = {"id": number, "ok": True, "pid": pid, "missing": self._missing}
        except (ValueError, OSError) as error:
            answer = {"id": number, "ok": False, "error": {"code": "internal", "message": str(error)}}
        finally:
            frames.close_fds(fds)
        frames.send(self._manager, answer)

    def _fork(self, order: dict[str, Any], end: int) -> int:
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                sock = socket.socket(fileno=os.dup(end))
                os.closerange(3, sock.fileno())
                os.closerange(sock.fileno() + 1, 4096)
                from . import serving  # before our own names leave sys.modules

                birth.be_born(order, self._missing)
                status = serving.serve(sock, order)
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(status)
        pidfd = os.pidfd_open(pid)
        self._children[pid] = pidfd
        self._selector.register(pidfd, selectors.EVENT_READ, pid)
        return pid

    def _reap(self, pid: int) -> None:
        _, status = os.waitpid(pid, os.WNOHANG)
        pidfd = self._children.pop(pid)
        self._selector.unregister(pidfd)
        os.close(pidfd)
        frames.send(self._manager, {"exited": pid, "status": os.waitstatus_to_exitcode(status)})


def serve(manager: socket.socket) -> int:
    """Serve `manager` until it closes; SIGINT is for whoever started us, SIGTERM ends us at once."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    return Zygote(manager).serve()
