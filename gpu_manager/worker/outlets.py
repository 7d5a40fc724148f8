"""What stands in a call's arguments for an object of the caller: it is spoken to, and says nothing."""

from __future__ import annotations

import socket
from typing import Any

from .sharing import outlets

SEND_TIMEOUT_S = 60.0  # a reader that takes nothing for so long has gone


class Line:
    """The way to the caller's objects of one call; `fd` is its socket, ours from now on, -1 for none."""

    def __init__(self, fd: int) -> None:
        self._socket = socket.socket(fileno=fd) if fd >= 0 else None
        if self._socket is not None:
            self._socket.settimeout(SEND_TIMEOUT_S)

    def outlet(self, number: int) -> Outlet:
        """The stand-in for one object."""
        if self._socket is None:
            raise ValueError("a call names a streamer and brings no way to it")
        return Outlet(self._socket, number)

    def close(self) -> None:
        """The call is over."""
        if self._socket is None:
            return
        try:
            outlets.write(self._socket, {"over": True})
        except OSError:
            pass  # nobody listens any more
        finally:
            self._socket.close()
            self._socket = None


class Outlet:
    """A streamer, seen from the model."""

    def __init__(self, sock: socket.socket, number: int) -> None:
        self._socket = sock
        self._number = number

    def put(self, *values: Any) -> None:
        """As the streamer's own; raises BrokenPipeError when it does not want any more."""
        outlets.write(self._socket, {"outlet": self._number, "method": "put"}, values)

    def end(self, *values: Any) -> None:
        """As the streamer's own."""
        outlets.write(self._socket, {"outlet": self._number, "method": "end"}, values)
