"""The function beside the broker: a Unix socket (our template) or host and port (a server of its own)."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator

from proto.types.errors import SlicewiseError
from proto.wire.http.pool import Answer, Pool, Unreachable, connect, request_head

# Servers of users' own close idle connections after a second or more (gunicorn: 2 s); ours never does.
FOREIGN_IDLE_S = 1.0
PROBE_S = 5.0


class NotServing(Exception):
    """Nobody listens yet, or what answers does not say that it is ready."""


class Upstream:
    """Connections to one function. Make it inside the event loop.

    A port of its own may be taken by somebody else before its server has it: whoever listens there must be the
    function's user, unless that is 0.
    """

    def __init__(self, socket_path: str, host: str, port: int, uid: int) -> None:
        self._address = socket_path or f"{host}:{port}"
        self._uid = uid
        self._pool = Pool(math.inf if socket_path else FOREIGN_IDLE_S, owner=uid)
        self.host = b"function" if socket_path else self._address.encode()

    async def send(self, head: bytes, body: bytes | AsyncIterator[bytes], chunked: bool, head_only: bool) -> Answer:
        """As Pool.send."""
        return await self._pool.send(self._address, head, body, chunked, head_only)

    async def probe(self, path: str) -> None:
        """Whether somebody listens and, with a path, answers there with success; raises NotServing if not."""
        try:
            if not path:
                (await connect(self._address, self._uid)).close()
                return
            async with asyncio.timeout(PROBE_S):
                head = request_head(b"GET", path.encode(), [(b"host", b"function")])
                answer = await self._pool.send(self._address, head)
        except TimeoutError as error:
            raise NotServing(f"The function does not answer at {path}.") from error
        except (Unreachable, SlicewiseError) as error:
            raise NotServing(f"The function does not listen ({error}).") from error
        answer.close()
        if answer.status >= 400:
            raise NotServing(f"The function answers {answer.status} at {path}.")

    def forget(self) -> None:
        """The process behind the connections has gone."""
        self._pool.close()
