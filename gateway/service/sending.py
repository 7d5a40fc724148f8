"""Sending a call to a replica: another one if the first cannot be reached, within a budget.

A replica that refuses connections has not seen the call. Mostly its host is starting again with new
replicas, which takes seconds, and the call can wait for them as it would for a function at zero.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator

from uvicorn._types import ASGISendCallable

from gateway.core import forwarding
from gateway.core.invocation import Phase
from gateway.service import answering
from gateway.service.call import Call
from gateway.service.entries import Replica
from gateway.service.securing import Securer
from proto.types.errors import SlicewiseError
from proto.types.headers import Headers
from proto.wire.http.pool import Answer, Pool, Unreachable, request_head

# Shorter than a broker keeps an idle connection (90 s), so that nothing is sent into one that is being closed.
IDLE_S = 60.0
_FIRST_PAUSE_S = 0.05
_LAST_PAUSE_S = 0.5

Body = bytes | AsyncIterator[bytes]


class Sender:
    """`wake_timeout_s` bounds the wait for a replica, `upstream_timeout_s` everything after it, and
    `unreachable_s` the time for which replicas that are said to be ready may refuse connections."""

    def __init__(
        self,
        securer: Securer,
        pool: Pool,
        wake_timeout_s: float,
        upstream_timeout_s: float,
        unreachable_s: float,
    ) -> None:
        self._securer = securer
        self._pool = pool
        self._wake_timeout_s = wake_timeout_s
        self._unreachable_s = unreachable_s
        self._upstream_timeout_s = upstream_timeout_s

    async def secure(self, call: Call) -> Replica:
        """The replica for a call; from its return on the invocation's own deadline runs."""
        replica = self._securer.now(call.entry)
        if replica is None:
            call.enter(Phase.START, self._wake_timeout_s)
            replica = await self._securer.wait(call.entry)
        call.enter(Phase.CALL, self._upstream_timeout_s)
        return replica

    async def send(
        self, call: Call, replica: Replica, extra: Headers, body: Body, length: int | None, send: ASGISendCallable
    ) -> Answer:
        """Send the call to `replica` and pass the answer on as it is produced; the answer, read to its end.

        Raises SlicewiseError `unavailable` when no replica could be reached. `body` is only begun once
        a connection stands, so it may be one that can be iterated once.
        """
        avoid: set[str] = set()
        method = call.method.encode()
        headers = call.headers + extra + forwarding.framing(call.method, length)
        loop = asyncio.get_running_loop()
        give_up_s = loop.time() + self._unreachable_s
        pause_s = _FIRST_PAUSE_S
        while True:
            replica.in_flight += 1
            answer: Answer | None = None
            try:
                head = request_head(method, call.target, [(b"host", replica.address.encode()), *headers])
                answer = await self._pool.send(replica.address, head, body, length is None, call.method == "HEAD")
                await self._pass_on(call, answer, send)
                return answer
            except Unreachable:
                avoid.add(replica.id)
            finally:
                replica.in_flight -= 1
                if answer is not None:
                    answer.close()
            if loop.time() >= give_up_s:
                raise SlicewiseError("unavailable", f"No replica of {call.entry.full_name} accepts connections.")
            await asyncio.sleep(pause_s * random.uniform(0.5, 1.5))
            pause_s = min(_LAST_PAUSE_S, pause_s * 2)
            replica = await self._securer.wait(call.entry, avoid)

    async def _pass_on(self, call: Call, answer: Answer, send: ASGISendCallable) -> None:
        request_type = call.header(b"content-type")
        call.answered = True
        headers = forwarding.to_client(answer.headers, call.own, request_type, answer.status)
        await answering.stream(send, answer, headers)
