"""Tensor calls a second of one node with 600 kB each way in, at one, two and four slices.

As many functions as slices, each called by one client whose handler makes many model calls an invocation;
what is counted are model calls, not invocations.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from typing import Any

import aiohttp

from benchmarks.report import write
from benchmarks.stage import Stage


async def throughput(slices: int, calls: int) -> dict[str, Any]:
    """One platform with so many slices."""
    with Stage("--slices", f"{slices}x1g:1GiB") as stage:
        stage.build("tensor")
        names = [f"tensor-{number}" for number in range(slices)]
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=300)) as session:
            for number, name in enumerate(names):
                await stage.deploy(session, name, "tensor", SEED=str(number))
            await stage.wait_ready(session, names)

            async def run(name: str, count: int) -> float:
                async with session.post(f"{stage.url}/function/{name}?count={count}") as answer:
                    body = await answer.json(content_type=None)
                    if answer.status != 200:
                        raise RuntimeError(f"{name}: {answer.status} {body}")
                    return float(body["seconds"])

            await asyncio.gather(*(run(name, 10) for name in names))
            began = time.perf_counter()
            inside = await asyncio.gather(*(run(name, calls) for name in names))
            seconds = time.perf_counter() - began
    return {
        "case": "tensor call, 600 kB in and out",
        "slices": slices,
        "calls_per_s": slices * calls / seconds,
        "seconds_a_call": max(inside) / calls,
    }


async def measure(calls: int) -> list[dict[str, Any]]:
    """One, two and four slices."""
    return [await throughput(slices, calls) for slices in (1, 2, 4)]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=1000)
    write(
        "tensors",
        "Tensor calls a second of one node",
        asyncio.run(measure(parser.parse_args().calls)),
        "A call crosses runtime, broker, data door and worker and comes back, 600 kB each way in memfds. Two "
        "cores in all.",
    )
