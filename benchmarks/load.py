"""Load over HTTP: clients in a closed loop, and arrivals drawn in advance."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import aiohttp
from multidict import CIMultiDict, CIMultiDictProxy


@dataclass
class Sample:
    """One request: when it was sent (seconds from the start), how long it took, what came back."""

    function: str
    at_s: float
    seconds: float
    status: int
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def hit(self) -> bool | None:
        """Whether the model was on the slice; None for a call that used none."""
        cache = self.headers.get("X-Slicewise-Cache")
        return None if cache is None else cache == "hit"


async def one(session: aiohttp.ClientSession, url: str, function: str, body: bytes, began: float) -> Sample:
    """One POST, its body read whole."""
    sent = time.perf_counter()
    try:
        async with session.post(f"{url}/function/{function}", data=body) as answer:
            await answer.read()
            status, headers = answer.status, answer.headers
    except aiohttp.ClientError:
        status, headers = 0, CIMultiDictProxy(CIMultiDict[str]())
    return Sample(function, sent - began, time.perf_counter() - sent, status, headers)


async def closed_loop(
    url: str, functions: list[str], body: Callable[[str], bytes], clients: int
) -> tuple[list[Sample], float]:
    """`clients` clients take the functions of the trace in order, each its next as soon as it is answered.

    Returns the samples in order of completion and the seconds from first to last.
    """
    samples: list[Sample] = []
    trace: Iterator[str] = iter(functions)
    timeout = aiohttp.ClientTimeout(total=120)
    async with aiohttp.ClientSession(timeout=timeout, connector=aiohttp.TCPConnector(limit=0)) as session:
        began = time.perf_counter()

        async def client() -> None:
            for function in trace:
                samples.append(await one(session, url, function, body(function), began))

        await asyncio.gather(*(client() for _ in range(clients)))
        return samples, time.perf_counter() - began


async def arrivals(url: str, plan: list[tuple[float, str]], body: Callable[[str], bytes]) -> tuple[list[Sample], float]:
    """Open loop: each (at_s, function) of the plan is sent at its time, whatever has been answered."""
    timeout = aiohttp.ClientTimeout(total=600)
    async with aiohttp.ClientSession(timeout=timeout, connector=aiohttp.TCPConnector(limit=0)) as session:
        began = time.perf_counter()

        async def at(at_s: float, function: str) -> Sample:
            await asyncio.sleep(max(0.0, began + at_s - time.perf_counter()))
            return await one(session, url, function, body(function), began)

        samples = await asyncio.gather(*(at(at_s, function) for at_s, function in plan))
        return list(samples), time.perf_counter() - began
