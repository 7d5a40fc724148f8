"""A model call of 600 kB on a slice of another node against one on a slice of the same node, side by side.

Two GPU managers as if on two machines, one slice each, two functions with one replica each: `near` beside node
a, `far` beside node b. While node b's slice was occupied (a call whose worker is stopped) both were loaded on a's, and
`lalb` keeps them where they are: `near` is called over the Unix socket with memfds, `far` over gRPC. Their
invocations alternate, many model calls each, timed inside the handler.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import time
from typing import Any

import aiohttp
import psutil

from benchmarks.report import percentile, write
from benchmarks.stage import Stage

SLICE = "a-s0"
NODES = {"near": "a", "far": "b", "occupant": "b"}
GUARD_S = 60.0


async def deploy(stage: Stage, session: aiohttp.ClientSession) -> None:
    """The functions, each beside its node, models of their own."""
    for seed, (name, node) in enumerate(NODES.items()):
        wish = {
            "service": name, "image": "tensor", "envVars": {"SEED": str(seed)},
            "annotations": {"com.slicewise.gpu": "true"}, "constraints": [f"node={node}"],
        }  # fmt: skip
        await stage.system(session, "/system/functions", "POST", wish)
    await stage.wait_ready(session, list(NODES))


async def call(stage: Stage, session: aiohttp.ClientSession, name: str, count: int) -> tuple[str, float]:
    """One invocation of `count` model calls: (slice, seconds a model call)."""
    async with session.post(f"{stage.url}/function/{name}?count={count}") as answer:
        body = await answer.json(content_type=None)
        if answer.status != 200:
            raise RuntimeError(f"{name}: {answer.status} {body}")
        return answer.headers["X-Slicewise-Slice"], float(body["seconds"]) / count


async def occupy(stage: Stage, session: aiohttp.ClientSession) -> tuple[psutil.Process, asyncio.Task[Any]]:
    """A call that keeps b's slice for itself until its worker goes on: (worker, call)."""
    where, _ = await call(stage, session, "occupant", 1)
    title = "sw:occupant.openfaas-fn"[:15]
    (worker,) = [process for process in stage.processes() if process.name() == title]
    if where != "b-s0":
        raise RuntimeError(f"the occupant is on {where}")
    worker.send_signal(signal.SIGSTOP)
    held = asyncio.create_task(call(stage, session, "occupant", 1))
    async with asyncio.timeout(GUARD_S):
        while True:
            state = await stage.system(session, "/system/scheduler/state")
            if next(item for item in state["slices"] if item["id"] == "b-s0")["status"] in ("busy", "stalled"):
                return worker, held
            await asyncio.sleep(0.05)


async def measure(rounds: int, calls: int) -> list[dict[str, Any]]:
    """Near and far in turns."""
    seconds: dict[str, list[float]] = {"near": [], "far": []}
    whole: dict[str, list[float]] = {"near": [], "far": []}
    with Stage("--agents", "2", "--slices", "1x1g:1GiB") as stage:
        stage.build("tensor")
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=600)) as session:
            await deploy(stage, session)
            await call(stage, session, "near", 1)  # a's slice holds it, so the occupant goes to the roomier b
            worker, held = await occupy(stage, session)
            await call(stage, session, "far", 1)
            worker.send_signal(signal.SIGCONT)
            await held
            for turn in range(rounds + 1):
                for name in ("near", "far"):
                    began = time.perf_counter()
                    where, each = await call(stage, session, name, calls)
                    if where != SLICE:
                        raise RuntimeError(f"{name} ran on {where}")
                    if turn:  # the first turn warms up
                        seconds[name].append(each)
                        whole[name].append((time.perf_counter() - began) / calls)
    near = percentile(seconds["near"], 0.5)
    ways = {"near": "same node, memfd", "far": "other node, gRPC"}
    return [
        {
            "case": f"tensor call, 600 kB in and out, {ways[name]}",
            "p50_s": percentile(values, 0.5),
            "min_s": min(values),
            "max_s": max(values),
            "calls_per_s": 1 / percentile(whole[name], 0.5),
            "MB_per_s": 2 * 0.6 / percentile(values, 0.5),
            "ratio": percentile(values, 0.5) / near,
        }
        for name, values in seconds.items()
    ]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--calls", type=int, default=50)
    given = parser.parse_args()
    write(
        "remote",
        "A tensor call on another node against one on the same",
        asyncio.run(measure(given.rounds, given.calls)),
        "Each figure is over invocations of many model calls, by the handler's clock; both functions alternate on one "
        "slice.\nBoth nodes are on this machine and share its two cores: what is compared is the cost of the way "
        "(loopback\nTCP, two copies and protobuf against a passed descriptor), not of a network.",
    )
