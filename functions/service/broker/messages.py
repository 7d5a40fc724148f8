"""One request as it goes to the function, one answer as it goes back: which headers pass and which are ours."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from functions.service.broker.invocations import Invocation
from functions.service.broker.upstream import Connection, RawHeaders
from proto.types.errors import SlicewiseError

Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

# Names that belong to one hop (RFC 9110, 7.6.1), and those that only the platform may say.
_HOP = b"connection keep-alive proxy-authenticate proxy-authorization proxy-connection te trailer transfer-encoding"
_OURS = b"x-slicewise-binding x-slicewise-queued x-slicewise-deadline x-slicewise-call"
DROPPED = frozenset([*_HOP.split(), *_OURS.split(), b"upgrade", b"expect"])
ANSWER_DROPPED = frozenset([*_HOP.split(), b"upgrade", b"x-slicewise-raised", b"x-duration-seconds"])
PLATFORM = frozenset([*_OURS.split(), b"x-slicewise-batch", b"x-slicewise-sla", b"x-call-id"])


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
        self._lines: list[bytes] = []
        lines = self._lines
        named: frozenset[bytes] = frozenset()
        for name, value in scope["headers"]:
            if name in PLATFORM:
                self.platform[name] = value
            if name in DROPPED:
                if name == b"transfer-encoding":
                    self.chunked = True
                elif name == b"connection":
                    named = frozenset(word.strip() for word in value.lower().split(b",")) - {b"close", b"keep-alive"}
                continue
            if name == b"content-length":
                self._has_length = value != b"0"
            elif name == b"host":
                self._has_host = True
            elif name == b"x-timeout":
                self.timeout = value.decode("latin-1")
            lines.append(b"%s: %s" % (name, value))
        if named:
            self._lines = [line for line in lines if line.partition(b":")[0] not in named]

    @property
    def has_body(self) -> bool:
        """Whether a body is announced."""
        return self.chunked or self._has_length

    def head(self, host: bytes, token: bytes) -> bytes:
        """The request's head for the function; `token` names the invocation to the runtime ("" for CPU functions)."""
        lines = [b"%s %s HTTP/1.1" % (self.method, self._target), *self._lines]
        if not self._has_host:
            lines.append(b"host: " + host)
        if self.chunked:
            lines.append(b"transfer-encoding: chunked")
        if token:
            lines.append(b"x-slicewise-call: " + token)
        lines.append(b"\r\n")
        return b"\r\n".join(lines)


class Reply:
    """The one answer of a call: the function's, or a refusal if nothing was sent yet."""

    def __init__(self, send: Send, started_ns: int) -> None:
        self._send = send
        self._started_ns = started_ns
        self._started = False
        self.invocation: Invocation | None = None

    async def start(self, connection: Connection) -> None:
        """Send status and headers on. Raises the platform's error that the handler let escape, if that is its 500."""
        raised = b""
        headers: RawHeaders = []
        for name, value in connection.headers:
            lowered = name.lower()
            if lowered not in ANSWER_DROPPED:
                headers.append((lowered, value))
            elif lowered == b"x-slicewise-raised":
                raised = value
        if self.invocation is not None:
            error = self.invocation.escaped(connection.status, raised.decode("latin-1"))
            if error is not None:
                raise error
        await self._start(connection.status, headers)

    async def _start(self, status: int, headers: RawHeaders) -> None:
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

    async def text(self, status: int, text: str, headers: RawHeaders | None = None) -> None:
        """A whole answer of the broker's own."""
        body = text.encode() + b"\n"
        kind = (b"content-type", b"text/plain; charset=utf-8")
        await self._start(status, [kind, (b"content-length", str(len(body)).encode()), *(headers or [])])
        await self.more(body, last=True)
