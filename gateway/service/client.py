"""The caller's side of an invocation: its body as it arrives."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from uvicorn._types import ASGIReceiveCallable

from proto.wire.http.guard import LEFT, Guard


class Gone(Exception):
    """The caller closed its connection; nobody is there to be answered."""


class Client:
    """The one reader of a request's body."""

    __slots__ = ("_guard", "_receive")

    def __init__(self, receive: ASGIReceiveCallable, guard: Guard) -> None:
        self._receive = receive
        self._guard = guard

    async def part(self) -> tuple[bytes, bool]:
        """(what has arrived of the body, whether more is to come); raises Gone."""
        message: Any = await self._receive()
        if message["type"] != "http.request":
            raise Gone
        return message.get("body", b""), message.get("more_body", False)

    async def rest(self, first: bytes, more: bool) -> AsyncIterator[bytes]:
        """The body from its first part on, as it arrives; then the guard watches the caller."""
        if first:
            yield first
        while more:
            try:
                data, more = await self.part()
            except Gone:
                self._guard.trip(LEFT)
                raise ConnectionResetError("the caller left in the middle of its request") from None
            if data:
                yield data
        self._guard.watch_client()
