"""The second port: /metrics for Prometheus and /healthz for whoever probes this process alone."""

from __future__ import annotations

from prometheus_client.exposition import CONTENT_TYPE_LATEST
from uvicorn._types import ASGIReceiveCallable, ASGISendCallable, Scope

from gateway.service import answering
from gateway.service.pages import Pages

_PLAIN = "text/plain; charset=utf-8"


class MetricsDoor:
    """The ASGI application of the metrics port."""

    def __init__(self, pages: Pages) -> None:
        self._pages = pages

    async def __call__(self, scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            return
        status, kind, body = 200, _PLAIN, b"OK"
        if scope["path"] not in ("/metrics", "/healthz"):
            status, body = 404, b"There is nothing at this path.\n"
        elif scope["method"] != "GET":
            status, body = 405, b"This path knows GET only.\n"
        elif scope["path"] == "/metrics":
            kind, body = CONTENT_TYPE_LATEST, await self._pages.render()
        await answering.send_text(send, status, [(b"content-type", kind.encode())], body)
