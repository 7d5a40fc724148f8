"""`lb` against `lalb` on the running platform: emulated slices, real processes, loads and evictions.

Four slices, twelve models, two to a slice; Poisson arrivals near saturation, the same drawn in advance for both.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from pathlib import Path
from typing import Any

import aiohttp
import numpy

from benchmarks.load import arrivals, run
from benchmarks.report import percentile, write
from benchmarks.stage import Stage

MODELS = 12
LOAD_S = 0.5
CALL_S = 0.1


def scenario() -> dict[str, Any]:
    """Slices and models; functions are matched to models by name."""
    return {
        "slices": [{"id": f"e{number}", "gpcs": 1, "memory_gb": 4.0} for number in range(4)],
        "models": {
            f"model-{number}": {"memory_gb": 2.0, "load_s": LOAD_S, "infer_s": {"fixed": CALL_S, "per_item": 0.0}}
            for number in range(MODELS)
        },
        "requests": [],
    }


def plan(rate: float, seconds: float) -> list[tuple[float, str]]:
    """Poisson arrivals over functions of Zipf 1.0 popularity, seed 11."""
    random = numpy.random.default_rng(11)
    weights = 1.0 / numpy.arange(1, MODELS + 1)
    at, drawn = 0.0, []
    while (at := at + random.exponential(1 / rate)) < seconds:
        drawn.append((at, f"model-{random.choice(MODELS, p=weights / weights.sum())}"))
    return drawn


async def measure(rate: float, seconds: float) -> list[dict[str, Any]]:
    """Both policies on one platform, one after the other."""
    folder = Path(tempfile.mkdtemp())
    file = folder / "scenario.json"
    file.write_text(json.dumps(scenario()))
    results: list[dict[str, Any]] = []
    with Stage("--emulate", str(file)) as stage:
        stage.build("work")
        names = [f"model-{number}" for number in range(MODELS)]
        async with aiohttp.ClientSession() as session:
            for name in names:
                await stage.deploy(session, name, "work", SEED="1", LOAD_S="0", CALL_S="0")
            await stage.wait_ready(session, names)
            for policy in ("lb", "lalb"):
                await stage.system(session, "/system/scheduler/policy", "PUT", {"name": policy})
                samples, _ = await arrivals(stage.url, plan(rate, seconds), lambda _: bytes(4096))
                good = [sample for sample in samples if sample.status == 200]
                latencies = [sample.seconds for sample in good]
                results.append(
                    {
                        "scenario": f"live, 4 emulated slices of 2 models, 12 models, {rate:g} requests/s",
                        "policy": policy,
                        "requests": len(samples),
                        "answered": len(good),
                        "mean_latency_s": statistics.fmean(latencies),
                        "p99_latency_s": percentile(latencies, 0.99),
                        "miss_ratio": sum(sample.hit is False for sample in good) / len(good),
                        "sla_violation_ratio": None,
                    }
                )
    results.append(
        {
            "scenario": "lalb's mean latency / lb's",
            "policy": "lalb/lb",
            "mean_latency_s": results[1]["mean_latency_s"] / results[0]["mean_latency_s"],
        }
    )
    return results


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rate", type=float, default=12.0)
    parser.add_argument("--seconds", type=float, default=60.0)
    given = parser.parse_args()
    write(
        "policies",
        "Load balancing against locality-aware load balancing, live",
        run(measure(given.rate, given.seconds)),
        f"Emulated slices: real gateway, scheduler, cache manager, GPU manager, workers and functions; a load "
        f"takes {LOAD_S} s and\n"
        f"a call {CALL_S} s. Aim: lalb at a third of lb's mean or less.\n\n"
        "Rows that begin with `simulated` are in virtual time and joined by the command at their end; their pages say\n"
        "what is assumed in them.",
    )
