"""The watchdog in front of a function: a raw ASGI application, one a replica.

It counts calls in flight, keeps limits, holds calls until the function really serves, sees clients
leave, and passes everything else on unchanged. What a GPU function needs beside that is in `invocations`.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import time
from collections.abc import AsyncIterator, MutableMapping
from typing import Any

from functions.service import durations
from functions.service.broker.invocations import Invocations
from functions.service.broker.messages import Receive, Reply, Request, Send
from functions.service.broker.reporting import CallReport
from functions.service.broker.upstream import Upstream
from functions.service.orders import BrokerOrder
from proto.types.errors import SlicewiseError
from proto.wire.http.connection import Died
from proto.wire.http.guard import LEFT, Guard
from proto.wire.http.pool import Unreachable

log = logging.getLogger(__name__)

# How long a broken connection waits for the news of what ended the process behind it.
NEWS_S = 0.5
INFLIGHT_FULL = [(b"x-openfaas-internal", b"faas-middleware"), (b"x-slicewise-error", b"inflight_full")]


class Broker:
    """State of one replica as its broker sees it, and the application itself."""

    def __init__(
        self, order: BrokerOrder, upstream: Upstream, invocations: Invocations | None, report: CallReport | None = None
    ) -> None:
        self._order = order
        self.report = report
        self._upstream = upstream
        self._invocations = invocations
        self.in_flight = 0
        self.last_request = time.monotonic()
        self.serving = asyncio.Event()
        self.gone = asyncio.Event()
        self.gone_why = ""
        self.draining = False
        self.template = bool(order.upstream_socket)
        self.ready_path = order.ready_path

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Serve one request."""
        reply = Reply(send, time.monotonic_ns())
        if scope["path"] in ("/_/health", "/_/ready"):
            await self._health(scope, reply)
            return
        if self.report is not None and scope["path"] == "/_/calls":
            await reply.text(200, json.dumps(self.report.document()))
            return
        limit = self._order.max_inflight
        if limit and self.in_flight >= limit:
            text = f"Concurrent request limit exceeded. Max concurrent requests: {limit}"
            await reply.text(429, text, INFLIGHT_FULL)
            return
        self.in_flight += 1
        try:
            await self._serve(Request(scope), Guard(scope), receive, reply)
        except SlicewiseError as error:  # after the first byte: the server cuts the connection
            log.warning("an answer was cut: %s", error.message)
            raise
        except Exception:
            log.exception("a call could not be served")
            raise
        finally:
            self.in_flight -= 1
            self.last_request = time.monotonic()

    async def _health(self, scope: MutableMapping[str, Any], reply: Reply) -> None:
        limit = self._order.max_inflight
        if scope["method"] != "GET":
            await reply.text(405, "Method Not Allowed")
        elif not self.serving.is_set() or self.draining:
            await reply.text(503, self.gone_why or "Service Unavailable")
        elif scope["path"] == "/_/ready" and limit and self.in_flight >= limit:
            await reply.text(429, "Too Many Requests")
        else:
            await reply.text(200, "OK")

    async def _serve(self, request: Request, guard: Guard, receive: Receive, reply: Reply) -> None:
        limit_s = self._order.exec_timeout_s
        if request.timeout:  # may shorten the limit, never lengthen it
            asked_s = durations.seconds(request.timeout, 0.0)
            limit_s = min(limit_s or asked_s, asked_s or limit_s)
        abandoned = True
        if limit_s > 0:
            guard.limit("exec_timeout", limit_s)
        try:
            if not self.serving.is_set():
                await self._until_serving()
            if self._invocations is not None:
                reply.invocation = self._invocations.begin(request.platform, limit_s)
            await self._exchange(request, guard, receive, reply)
            abandoned = False
        except asyncio.CancelledError:
            reason = guard.caught()
            if not reason:  # the broker itself ends, and everything behind it
                with contextlib.suppress(SlicewiseError):
                    await reply.refuse(SlicewiseError("function_died", "The function's replica ended during the call."))
                raise
            if reason != LEFT:  # else nobody is there to be told
                await reply.refuse(self._given_up(reason, limit_s))
        except (Died, Unreachable) as error:
            await reply.refuse(await self._what_died(error))
        except SlicewiseError as error:
            await reply.refuse(error)
        finally:
            guard.close()
            if reply.invocation is not None:
                reply.invocation.finish(abandoned)

    def _given_up(self, reason: str, limit_s: float) -> SlicewiseError:
        if reason == "exec_timeout":
            return SlicewiseError("deadline_exec", f"The function did not answer within exec_timeout ({limit_s:g} s).")
        text = f"The body did not arrive within read_timeout ({self._order.read_timeout_s:g} s)."
        return SlicewiseError("body_cut", text)

    async def _until_serving(self) -> None:
        limit_s = self._order.start_timeout_s
        try:
            async with asyncio.timeout(limit_s):
                await self.serving.wait()
        except TimeoutError:
            why = self.gone_why or "It is still starting."
            raise SlicewiseError("not_ready", f"The function was not ready within {limit_s:g} s. {why}", 5.0) from None

    async def _what_died(self, error: Died | Unreachable) -> SlicewiseError:
        try:
            async with asyncio.timeout(NEWS_S):
                await self.gone.wait()
        except TimeoutError:
            if isinstance(error, Died):
                return error
            return SlicewiseError("function_died", f"The function does not listen ({error}).")
        return SlicewiseError("function_died", f"The function died during the call. {self.gone_why}".strip())

    async def _exchange(self, request: Request, guard: Guard, receive: Receive, reply: Reply) -> None:
        """One request to the function and its answer back."""
        data, more = b"", False
        if request.has_body:
            if self._order.read_timeout_s:
                guard.limit("read_timeout", self._order.read_timeout_s)
            data, more = await _piece(receive, guard)
            if not more:
                guard.lift("read_timeout")
        body: bytes | AsyncIterator[bytes] = data
        if more or request.chunked:
            body = _rest(receive, guard, data, more)
        else:
            guard.watch_client()
        head = request.head(self._upstream.host, reply.invocation.token if reply.invocation is not None else b"")
        answer = await self._upstream.send(head, body, request.chunked, request.is_head)
        try:
            await reply.start(answer)
            last = False
            while not last:
                data, last = await answer.part()
                await reply.more(data, last)
        finally:
            answer.close()


async def _piece(receive: Receive, guard: Guard) -> tuple[bytes, bool]:
    """(bytes, whether more will come) of the client's body; a client that leaves ends the call."""
    message = await receive()
    if message["type"] == "http.disconnect":
        guard.trip(LEFT)
        await asyncio.sleep(3600)  # ended at once by the guard
    return message.get("body", b""), message.get("more_body", False)


async def _rest(receive: Receive, guard: Guard, data: bytes, more: bool) -> AsyncIterator[bytes]:
    """The body from its first piece on, as it arrives; then nobody but the guard reads what the client sends."""
    try:
        yield data
        while more:
            data, more = await _piece(receive, guard)
            yield data
    finally:
        guard.lift("read_timeout")
    guard.watch_client()
