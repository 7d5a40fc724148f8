"""uvicorn as a part of a process of ours: what every one of its HTTP servers has in common.

Our process has the loop, the signals and the logs; there is no WebSocket and no proxy in front. Heads and bodies are
the application's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, cast

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

# Connections that the kernel holds until they are accepted.
BACKLOG = 2048
_EXTENSION = "slicewise.front"


class Front(HttpToolsProtocol):
    """uvicorn's protocol, which also tells the application at once that its client has left.

    ASGI's way is a `receive` that waits beside the call, which is a task more for every request.
    """

    _watcher: Callable[[], None] | None = None
    _lost = False

    def on_message_begin(self) -> None:
        """A request begins."""
        super().on_message_begin()
        self.scope["extensions"] = {_EXTENSION: self}  # type: ignore[dict-item]

    def watch(self, left: Callable[[], None]) -> None:
        """Call `left` once when the connection has ended; for the request that is being served."""
        self._watcher = left
        # A long body may have stopped the reading, and an end is only seen by who reads.
        self.flow.resume_reading()
        if self._lost:
            self._tell()

    def forget(self, left: Callable[[], None]) -> None:
        """Do not call it any more; the request behind this one may have set its own."""
        if self._watcher == left:
            self._watcher = None

    def connection_lost(self, exc: Exception | None) -> None:
        """The client is gone."""
        super().connection_lost(exc)
        self._lost = True
        self._tell()

    def _tell(self) -> None:
        watcher, self._watcher = self._watcher, None
        if watcher is not None:
            watcher()


def front_of(scope: Mapping[str, Any]) -> Front:
    """The connection on which a request came."""
    return cast(Front, scope["extensions"][_EXTENSION])


def config(app: Any, keep_alive_s: float, http: type[asyncio.Protocol] = Front, **own: Any) -> uvicorn.Config:
    """For an ASGI 3 application; `own` are further keys of uvicorn.Config."""
    common: dict[str, Any] = {
        "interface": "asgi3",
        "loop": "none",
        "ws": "none",
        "lifespan": "off",
        "log_config": None,
        "access_log": False,
        "server_header": False,
        "proxy_headers": False,
        "backlog": BACKLOG,
        "timeout_keep_alive": int(keep_alive_s),
    }
    return uvicorn.Config(app, http=http, **common, **own)
