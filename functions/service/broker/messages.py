"""One request as it goes to the function, one answer as it goes back: which headers pass and which are ours."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from functions.service.broker.invocations import Invocation
from proto.types.errors import SlicewiseError
from proto.types.headers import BATCH, CALL, CALL_ID, HOP_BY_HOP, OURS, SLA, Headers, named
from proto.wire.http.pool import Answer, request_head

Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]

# Dropped on the way in and on the way out; PLATFORM is what a call says to the broker itself.
DROPPED = HOP_BY_HOP | OURS | {b"expect"}
ANSWER_DROPPED = HOP_BY_HOP | {b"x-slicewise-raised", b"x-duration-seconds"}
PLATFORM = OURS | {BATCH, SLA, CALL_ID}


class Request:
    """What an ASGI scope says, once through its headers."""

    def __init__(self, scope: MutableMapping[str, Any]) -> None:
        self.method: bytes = scope["method"].encode("ascii")
        self.is_head = self.method == b"HEAD"
        self.timeout = ""
        self.chunked = False
        self.platform: dict[bytes, bytes] = {}
        self._has_length = False
        self._has_host = False
        query = scope["query_string"]
        path = scope.get("raw_path") or scope["path"].encode("utf-8")
        self._target = b"%s?%s" % (path, query) if query else path
        self._headers: Headers = []
        more: frozenset[bytes] = frozenset()
        for header in scope["headers"]:
            name, value = header
            if name in PLATFORM:
                self.platform[name] = value
            if name in DROPPED:
                if name == b"transfer-encoding":
                    self.chunked = True
                elif name == b"connection":
                    more = named(value)
                continue
            if name == b"content-length":
                self._has_length = value != b"0"
            elif name == b"host":
                self._has_host = True
            elif name == b"x-timeout":
                self.timeout = value.decode("latin-1")
            self._headers.append(header)
        if more:
            self._headers = [header for header in self._headers if header[0] not in more]

    @property
    def has_body(self) -> bool:
        """Whether a body is announced."""
        return self.chunked or self._has_length

    def head(self, host: bytes, token: bytes) -> bytes:
        """The request's head for the function; `token` names the invocation to the runtime ("" for CPU functions)."""
        headers = self._headers
        if not self._has_host:
            headers.append((b"host", host))
        if self.chunked:
            headers.append((b"transfer-encoding", b"chunked"))
        if token:
            headers.append((CALL, token))
        return request_head(self.method, self._target, headers)


class Reply:
    """The one answer of a call: the function's, or a refusal if nothing was sent yet."""

    def __init__(self, send: Send, started_ns: int) -> None:
        self._send = send
        self._started_ns = started_ns
        self._started = False
        self.invocation: Invocation | None = None

    async def start(self, answer: Answer) -> None:
        """Send status and headers on. Raises the platform's error that the handler let escape, if that is its 500."""
        raised = b""
        headers: Headers = []
        for header in answer.headers:
            if header[0] not in ANSWER_DROPPED:
                headers.append(header)
            elif header[0] == b"x-slicewise-raised":
                raised = header[1]
        if self.invocation is not None:
            error = self.invocation.escaped(answer.status, raised.decode("latin-1"))
            if error is not None:
                raise error
        await self._start(answer.status, headers)

    async def _start(self, status: int, headers: Headers) -> None:
        if self.invocation is not None:
            headers += self.invocation.answer_headers()
        seconds = (time.monotonic_ns() - self._started_ns) / 1e9
        if self.invocation is not None:
            seconds += self.invocation.before_s  # else a phase could be longer than the whole
        headers.append((b"x-duration-seconds", b"%.6f" % seconds))
        self._started = True
        await self._send({"type": "http.response.start", "status": status, "headers": headers})

    async def more(self, data: bytes, last: bool = False) -> None:
        """Send a piece of the body on."""
        await self._send({"type": "http.response.body", "body": data, "more_body": not last})

    async def refuse(self, error: SlicewiseError) -> None:
        """Answer with the platform's error; raises it if an answer was begun, which cuts the connection."""
        if self._started:
            raise error
        headers = [(b"x-openfaas-internal", b"of-watchdog"), (b"x-slicewise-error", error.code.encode())]
        if error.retry_after_s is not None:
            headers.append((b"retry-after", str(max(1, round(error.retry_after_s))).encode()))
        await self.text(error.status, error.message, headers)

    async def text(self, status: int, text: str, headers: Headers | None = None) -> None:
        """A whole answer of the broker's own."""
        body = text.encode() + b"\n"
        kind = (b"content-type", b"text/plain; charset=utf-8")
        await self._start(status, [kind, (b"content-length", str(len(body)).encode()), *(headers or [])])
        await self.more(body, last=True)
