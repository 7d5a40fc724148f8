"""A fork made before it is wanted: it has left the node's namespaces and waits to be told whose worker it is.

Copying the zygote's page tables and making namespaces take most of a birth, and are the same for every worker. The
zygote keeps one such child, takes it for the next order and makes another once it has nothing else to do.
A spare has seen no order, so it holds nothing of any function.
"""

from __future__ import annotations

import os
import socket
import traceback
from typing import Any

from proto.wire import frames

from . import birth

Order = dict[str, Any]

MAX_DESCRIPTORS = 4096


class Spare:
    """The zygote's side of one, for a node without GPUs if `cpu`. Raises OSError if no process can be made."""

    def __init__(self, missing: list[str], cpu: bool, hide: list[str]) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        parent = os.pidfd_open(os.getpid())
        try:
            self.pid = birth.fork(missing)
            if self.pid == 0:
                _live(theirs, missing, cpu, hide, parent)
        except OSError:
            self._socket.close()
            raise
        finally:
            theirs.close()
            os.close(parent)
        self.pidfd = os.pidfd_open(self.pid)

    def become(self, order: Order, end: int) -> None:
        """Make it the worker of this order, with the worker's end of its socket; raises OSError if it has died."""
        try:
            frames.send(self._socket, order, [end])
        finally:
            self._socket.close()

    def close(self) -> None:
        """It is not wanted any more."""
        self._socket.close()


def _live(sock: socket.socket, missing: list[str], cpu: bool, hide: list[str], parent: int) -> None:
    """The child's own life; never returns."""
    status = 1
    try:
        _keep_only(sock.fileno(), parent)
        from . import serving  # before our own names leave sys.modules

        covers = birth.leave(missing, hide, parent)
        serving.warm(cpu)
        try:
            order, fds = frames.receive(sock)
        except (frames.FrameError, OSError):
            os._exit(0)
        end = socket.socket(fileno=fds[0])
        birth.become(order, covers, parent)
        _keep_only(end.fileno())
        status = serving.serve(end, order)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


def _keep_only(*descriptors: int) -> None:
    """Close all but these and the first three; an end of the zygote's, kept open, would hide a death."""
    first = 3
    for kept in sorted(descriptors):
        os.closerange(first, kept)
        first = kept + 1
    os.closerange(first, MAX_DESCRIPTORS)
