"""`/system/logs`: lines as NDJSON, one write a line, until the log or the write timeout ends."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import time
from datetime import UTC, datetime

from uvicorn._types import ASGIReceiveCallable, ASGISendCallable, HTTPScope

from gateway.core import log_query
from gateway.core.names import Namespaces
from gateway.service import answering
from gateway.service.providers.base import LogLine, Provider
from gateway.service.registry import Registry, unknown
from proto.types.errors import SlicewiseError
from proto.types.identity import FunctionKey
from proto.wire.http.guard import Guard

_log = logging.getLogger(__name__)

_LATE = "write_timeout"


class Logs:
    """Serves logs of functions that are deployed."""

    def __init__(self, registry: Registry, provider: Provider, namespaces: Namespaces, write_timeout_s: float) -> None:
        self._registry = registry
        self._provider = provider
        self._namespaces = namespaces
        self._write_timeout_s = write_timeout_s

    async def __call__(self, scope: HTTPScope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        """Serve one authenticated request."""
        try:
            if scope["method"] != "GET":
                raise SlicewiseError("method_not_allowed", "Logs are read with GET.")
            query = log_query.parse(scope["query_string"].decode("latin-1"), time.time_ns())
            key = FunctionKey(self._namespaces.resolve(query.namespace), query.name)
            if self._registry.get(key) is None:
                raise unknown(key)
        except SlicewiseError as error:
            await answering.send_failure(send, error, [])
            return
        headers = [(b"content-type", b"application/x-ndjson")]
        # At once: a client that follows a silent function must see that it is connected.
        await send({"type": "http.response.start", "status": 200, "headers": headers, "trailers": False})
        guard = Guard(scope)
        guard.watch_client()
        guard.limit(_LATE, self._write_timeout_s)
        try:
            async with contextlib.aclosing(self._provider.logs(key, query)) as lines:
                async for line in lines:
                    await send({"type": "http.response.body", "body": _encode(line), "more_body": True})
        except asyncio.CancelledError:
            if not guard.caught():
                raise
        finally:
            guard.close()
        await send({"type": "http.response.body", "body": b"", "more_body": False})


def _encode(line: LogLine) -> bytes:
    instant = datetime.fromtimestamp(line.unix_ns / 1e9, UTC).isoformat().replace("+00:00", "Z")
    document = {
        "name": line.name,
        "namespace": line.namespace,
        "instance": line.instance,
        "timestamp": instant,
        "text": line.text,
    }
    return json.dumps(document, separators=(",", ":")).encode() + b"\n"
