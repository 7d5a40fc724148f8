"""uvicorn as a part of this process: sockets that are bound before anything starts, signals left to us."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator

import uvicorn
from uvicorn._types import ASGI3Application

from gateway.service.http_protocol import bounded_protocol
from proto.types.errors import SlicewiseError
from proto.wire.http import serving

# The launcher gives a service 5 s from SIGTERM to its end.
_GRACE_S = 3


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def bind(address: str) -> socket.socket:
    """A listening socket for host:port; raises SlicewiseError `conflict` when the port is taken."""
    host, _, port = address.rpartition(":")
    host = host.strip("[]") or "0.0.0.0"
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, int(port)))
        listener.listen(serving.BACKLOG)
    except (OSError, ValueError, OverflowError) as error:
        listener.close()
        raise SlicewiseError("conflict", f"The gateway cannot listen on {address}: {error}.") from error
    listener.setblocking(False)
    return listener


def address_of(listener: socket.socket) -> str:
    """host:port that a socket is bound to."""
    host, port = listener.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def make_server(app: ASGI3Application, max_header_bytes: int, keep_alive_s: float) -> uvicorn.Server:
    """A server for `serve(sockets=[...])`; it ends when `should_exit` is set."""
    config = serving.config(
        app,
        keep_alive_s,
        http=bounded_protocol(max_header_bytes),
        date_header=True,
        timeout_graceful_shutdown=_GRACE_S,
    )
    return _Server(config)
