"""`/function/NAME/...`: from the path to a served call, and every way in which that can fail.

A failure before the answer began is a status and a sentence; after that the connection is cut, since
a client must not take half an answer for a whole one.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from uvicorn._types import ASGIReceiveCallable, ASGISendCallable, HTTPScope

from gateway.core import invocation
from gateway.core.forwarding import split_path
from gateway.core.names import Namespaces, is_segment
from gateway.service import answering
from gateway.service.call import LATE, Call
from gateway.service.client import Client, Gone
from gateway.service.gpu_path import GpuPath
from gateway.service.metrics import Metrics
from gateway.service.registry import Registry, unknown
from gateway.service.sending import Sender
from proto.types.errors import SlicewiseError
from proto.wire.http.guard import LEFT, Guard
from proto.wire.journal import call_id as journal_call_id

_log = logging.getLogger(__name__)

# What the metrics call a call whose caller left (nginx's number for it; no client ever sees it).
_LEFT = 499


class Invoker:
    """Serves every invocation; the limits are seconds and calls of one function."""

    def __init__(
        self,
        registry: Registry,
        namespaces: Namespaces,
        sender: Sender,
        gpu_path: GpuPath,
        metrics: Metrics,
        read_timeout_s: float,
        max_in_flight: int,
    ) -> None:
        self._registry = registry
        self._namespaces = namespaces
        self._sender = sender
        self._gpu_path = gpu_path
        self._metrics = metrics
        self._read_timeout_s = read_timeout_s
        self._max_in_flight = max_in_flight

    async def __call__(self, scope: HTTPScope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        """Serve one request whose path begins with /function/."""
        segment, path = split_path(scope["raw_path"])
        call = Call(scope, path)
        journal_call_id.set(call.call_id)
        entry = self._registry.find(segment)
        try:
            if not is_segment(segment):
                raise SlicewiseError("not_found", "There is nothing at this path.")
            if call.method not in invocation.METHODS:
                raise SlicewiseError("method_not_allowed", f"Functions are not called with {call.method}.")
            if entry is None:
                raise unknown(self._namespaces.function(segment))
            entry.enter(self._max_in_flight)
        except SlicewiseError as error:
            await answering.send_failure(send, error, call.own)
            return
        call.entry = entry
        self._metrics.started(entry.full_name)
        guard = call.guard = Guard(scope)
        status = 500
        try:
            status = await self._serve(call, Client(receive, guard), send)
        except (SlicewiseError, Gone) as error:
            guard.close()  # a caller that leaves now has nothing left to cancel
            status = await self._fail(call, error, send)
        except asyncio.CancelledError:
            guard.close()
            # The gateway is stopping: whoever waits is told, and may come again.
            status = await self._fail(call, SlicewiseError("unavailable", "The gateway is stopping."), send)
            raise
        finally:
            guard.close()
            entry.leave()
            self._metrics.finished(entry.full_name, str(status), call.taken_s())

    async def _serve(self, call: Call, client: Client, send: ASGISendCallable) -> int:
        call.enter(invocation.Phase.BODY, self._read_timeout_s)
        try:
            if call.entry.record.gpu:
                return await self._gpu_path.serve(call, client, send)
            return await self._serve_cpu(call, client, send)
        except asyncio.CancelledError:
            reason = call.guard.caught()
            if reason == LATE:
                raise invocation.too_late(call.phase, call.entry.full_name, call.limit_s) from None
            if reason == LEFT:
                raise Gone from None
            raise

    async def _serve_cpu(self, call: Call, client: Client, send: ASGISendCallable) -> int:
        """The body streams through; a short one that is here already goes along with the headers.

        What came in chunks goes on in chunks, however fast it came.
        """
        first, more = await client.part()
        body: Any = first
        length: int | None = len(first)
        if more or call.header(b"transfer-encoding"):
            body, length = client.rest(first, more), call.length()
        else:
            call.guard.watch_client()
        replica = await self._sender.secure(call)
        answer = await self._sender.send(call, replica, [], body, length, send)
        return answer.status

    async def _fail(self, call: Call, error: SlicewiseError | Gone, send: ASGISendCallable) -> int:
        if isinstance(error, Gone):
            return _LEFT
        if call.answered:
            # Returning without the end of the answer makes the server cut the connection.
            _log.warning("%s: the answer was cut: %s", call.entry.full_name, error)
            return error.status
        if error.status >= 500:
            _log.warning("%s: %s", call.entry.full_name, error)
        # A body that was not read to its end would be taken for the next request.
        unread = error.code in ("body_too_large", "body_cut", "disk_full")
        return await answering.send_failure(send, error, call.own, close=unread)
