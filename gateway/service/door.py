"""The one port: what carries load or streams is served here on the event loop, the rest goes to Flask."""

from __future__ import annotations

from uvicorn._types import ASGI3Application, ASGIReceiveCallable, ASGISendCallable, HTTPScope, Scope

from gateway.core import failing, forwarding
from gateway.service import answering
from gateway.service.auth import BasicAuth
from gateway.service.invoking import Invoker
from gateway.service.logs import Logs
from proto.types.errors import SlicewiseError

_FUNCTION = "/function/"
_LATER = {"/async-function/": "Asynchronous invocation", "/v2/": "The inference protocol"}
_LOGS = "/system/logs"
_GUARDED = ("/system/", "/ui/")
# Management requests that run or wait for a thread; people and deploy tools never come near.
MAX_MANAGING = 100


class Door:
    """The ASGI application."""

    def __init__(self, invoker: Invoker, logs: Logs, management: ASGI3Application, auth: BasicAuth) -> None:
        self._invoker = invoker
        self._logs = logs
        self._management = management
        self._auth = auth
        self._managing = 0

    async def __call__(self, scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            return
        path = scope["path"]
        if path.startswith(_FUNCTION):
            await self._invoker(scope, receive, send)
            return
        for prefix, what in _LATER.items():
            if path.startswith(prefix):
                await answering.send_failure(send, failing.not_yet(what), [])
                return
        if path.startswith(_GUARDED) and not await self._admitted(scope, send):
            return
        if path == _LOGS:
            await self._logs(scope, receive, send)
            return
        if self._managing >= MAX_MANAGING:
            full = SlicewiseError("queue_full", f"{MAX_MANAGING} management requests are being served.")
            await answering.send_failure(send, full, [], close=True)
            return
        self._managing += 1
        try:
            await self._management(scope, receive, send)
        finally:
            self._managing -= 1

    async def _admitted(self, scope: HTTPScope, send: ASGISendCallable) -> bool:
        given = forwarding.find(scope["headers"], b"authorization")
        try:
            self._auth.check(given.decode("latin-1"))
        except SlicewiseError as error:
            await answering.send_failure(send, error, [])
            return False
        return True
