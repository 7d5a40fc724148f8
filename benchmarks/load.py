"""Load over HTTP: clients in a closed loop, and arrivals drawn in advance.

The generator shares the machine with what it measures, so it takes the product's own connections, which cost a
fraction of a general client's time, on uvloop (`run`).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import uvloop

from proto.wire.http.connection import Died
from proto.wire.http.pool import Pool, Unreachable, request_head

KEEP_S = 30.0


@dataclass
class Sample:
    """One request: when it was sent (seconds from the start), how long it took, what came back.

    `headers` by lower-case name; `status` 0 if no answer came.
    """

    function: str
    at_s: float
    seconds: float
    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""

    @property
    def hit(self) -> bool | None:
        """Whether the model was on the slice; None for a call that used none."""
        cache = self.headers.get("x-slicewise-cache")
        return None if cache is None else cache == "hit"


class Caller:
    """POSTs to the functions of one gateway over kept connections."""

    def __init__(self, url: str) -> None:
        self._address = urlsplit(url).netloc
        self._pool = Pool(KEEP_S, max_idle=4096)
        self._began = time.perf_counter()

    async def post(self, function: str, body: bytes, timeout_s: float = 120.0) -> Sample:
        """One POST, its answer read whole."""
        framing = (b"host", self._address.encode()), (b"content-length", b"%d" % len(body))
        head = request_head(b"POST", f"/function/{function}".encode(), framing)
        sent = time.perf_counter()
        status, headers, parts = 0, dict[str, str](), list[bytes]()
        try:
            async with asyncio.timeout(timeout_s):
                answer = await self._pool.send(self._address, head, body)
                try:
                    last = False
                    while not last:
                        part, last = await answer.part()
                        parts.append(part)
                    status, headers = answer.status, {name.decode(): value.decode() for name, value in answer.headers}
                finally:
                    answer.close()
        except (Died, Unreachable, TimeoutError):
            status = 0
        return Sample(function, sent - self._began, time.perf_counter() - sent, status, headers, b"".join(parts))

    def close(self) -> None:
        """Close the connections."""
        self._pool.close()


async def closed_loop(
    url: str, functions: list[str], body: Callable[[str], bytes], clients: int
) -> tuple[list[Sample], float]:
    """`clients` clients take the functions of the trace in order, each its next as soon as it is answered.

    Returns the samples in order of completion and the seconds from first to last.
    """
    samples: list[Sample] = []
    trace: Iterator[str] = iter(functions)
    caller = Caller(url)
    began = time.perf_counter()

    async def client() -> None:
        for function in trace:
            samples.append(await caller.post(function, body(function)))

    try:
        await asyncio.gather(*(client() for _ in range(clients)))
        return samples, time.perf_counter() - began
    finally:
        caller.close()


async def arrivals(url: str, plan: list[tuple[float, str]], body: Callable[[str], bytes]) -> tuple[list[Sample], float]:
    """Open loop: each (at_s, function) of the plan is sent at its time, whatever has been answered."""
    caller = Caller(url)
    began = time.perf_counter()

    async def at(at_s: float, function: str) -> Sample:
        await asyncio.sleep(max(0.0, began + at_s - time.perf_counter()))
        return await caller.post(function, body(function), 600.0)

    try:
        samples = await asyncio.gather(*(at(at_s, function) for at_s, function in plan))
        return list(samples), time.perf_counter() - began
    finally:
        caller.close()


def run(measure: Coroutine[Any, Any, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Run a benchmark to its rows."""
    rows: list[dict[str, Any]] = uvloop.run(measure)
    return rows
