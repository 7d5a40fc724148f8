"""The common work that peers were measured with: many models, little memory.

Twelve functions, each a torch module with one 1024x2048 matrix whose unpickling takes 100 ms and whose call takes
5 ms; two slices that hold four each; 800 requests, Zipf 1.1 over the functions, numpy seed 7, eight closed-loop
clients on loopback. Three runs, the first of them cold.
"""

from __future__ import annotations

import argparse
import asyncio
from typing import Any

import aiohttp
import numpy

from benchmarks.load import closed_loop, run
from benchmarks.report import percentile, write
from benchmarks.stage import Stage

MODELS = 12
REQUESTS = 800
CLIENTS = 8
HELD = 4
SETTLED = 5  # equal readings, half a second apart: more than two reports


def trace() -> list[str]:
    """The functions of the 800 requests, in order."""
    weights = 1.0 / numpy.arange(1, MODELS + 1) ** 1.1
    drawn = numpy.random.default_rng(7).choice(MODELS, REQUESTS, p=weights / weights.sum())
    return [f"work-{number}" for number in drawn]


async def deploy(stage: Stage, count: int) -> None:
    """The work functions, ready."""
    names = [f"work-{number}" for number in range(count)]
    async with aiohttp.ClientSession() as session:
        for number, name in enumerate(names):
            await stage.deploy(session, name, "work", SEED=str(number))
        await stage.wait_ready(session, names)


async def worker_bytes() -> int:
    """What one worker of this work holds on a CPU slice, as the platform measures it."""
    with Stage("--slices", "1x1g:4GiB") as stage:
        stage.build("work")
        await deploy(stage, 1)
        samples, _ = await closed_loop(stage.url, ["work-0"] * 3, lambda _: bytes(4096), 1)
        assert all(sample.status == 200 for sample in samples), samples
        return await settled_bytes(stage)


async def settled_bytes(stage: Stage) -> int:
    """The charge of the only worker once it stays the same: a report follows a measurement, and that a call."""
    charges: list[int] = []
    async with aiohttp.ClientSession() as session, asyncio.timeout(60):
        while len(charges) < SETTLED or len(set(charges[-SETTLED:])) > 1:
            await asyncio.sleep(0.5)
            state = await stage.system(session, "/system/scheduler/state")
            charges.append(int(state["slices"][0]["workers"][0]["held_bytes"]))
    return charges[-1]


async def measure(runs: int) -> list[dict[str, Any]]:
    """The runs, side by side on one platform."""
    held = await worker_bytes()
    budget = int(held * (HELD + 0.5)) // 2**20
    results = []
    with Stage("--slices", f"2x1g:{budget}MiB") as stage:
        stage.build("work")
        await deploy(stage, MODELS)
        body = numpy.ones(1024, dtype=numpy.float32).tobytes()
        for run in range(runs):
            samples, seconds = await closed_loop(stage.url, trace(), lambda _: body, CLIENTS)
            latencies = [sample.seconds for sample in samples]
            results.append(
                {
                    "run": run,
                    "rps": len(samples) / seconds,
                    "p50_s": percentile(latencies, 0.5),
                    "p95_s": percentile(latencies, 0.95),
                    "p99_s": percentile(latencies, 0.99),
                    "max_s": max(latencies),
                    "loads": sum(sample.hit is False for sample in samples),
                    "failed": sum(sample.status != 200 for sample in samples),
                    "pss_mb": sum(process.memory_full_info().pss for process in stage.processes()) / 1e6,
                    "worker_mb": held / 1e6,
                }
            )
    return results


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=3)
    write(
        "common-work",
        "The common work: twelve models, two slices that hold four each",
        run(measure(parser.parse_args().runs)),
        "The best peer measured with this work was Ray Serve multiplexed (81 to 85 requests a second, 148 to "
        "155 loads).\n"
        "Aim: 105 requests a second, 95 loads, p99 0.350 s. The load generator shares the two cores. `pss_mb` is the\n"
        "whole platform with functions, workers and their models; `worker_mb` what one worker is charged.",
    )
