"""What the whole path adds to a warm GPU invocation, against the same handler called in its own process.

One function, one CPU slice, a linear layer on a small tensor; concurrency 1 and 8. The hops are read off
the answers: the client's time, the broker's (X-Duration-Seconds), the handler's time around its model
call (in the body), the worker's (X-Slicewise-Infer-Seconds).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import time
from typing import Any

import aiohttp

from benchmarks.load import Caller, closed_loop, run
from benchmarks.report import percentile, write
from benchmarks.stage import FUNCTIONS, Stage

ROWS = 1000
HANDLER = FUNCTIONS / "tensor" / "handler.py"


def in_process(count: int) -> list[float]:
    """Seconds of each call of the handler in a process without the platform, CPU tensors, once warm."""
    program = (
        "import importlib.util, json, sys, time, torch; from types import SimpleNamespace\n"
        "torch.set_num_threads(1); torch.nn.Module.to = lambda self, *a, **k: self\n"
        f"spec = importlib.util.spec_from_file_location('handler', {str(HANDLER)!r})\n"
        "handler = importlib.util.module_from_spec(spec); spec.loader.exec_module(handler)\n"
        f"event = SimpleNamespace(query={{'rows': '{ROWS}'}}, body=b'')\n"
        "out = []\n"
        f"for _ in range({count} + 20):\n"
        "    began = time.perf_counter(); handler.handle(event, None); out.append(time.perf_counter() - began)\n"
        "print(json.dumps(out[20:]))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120)
    return list(json.loads(done.stdout))


async def call(caller: Caller) -> dict[str, float]:
    """One invocation, and the time at each hop."""
    sample = await caller.post(f"tensor?rows={ROWS}", b"")
    total, header = sample.seconds, sample.headers
    if sample.status != 200 or not sample.hit:
        raise RuntimeError(f"{sample.status} {sample.body!r} {dict(header)}")
    body = json.loads(sample.body)
    inferred, broker, handler = (
        float(header["x-slicewise-infer-seconds"]),
        float(header["x-duration-seconds"]),
        body["seconds"],
    )
    return {
        "total": total,
        "gateway": total - broker,
        "broker and server": broker - handler,
        "to the slice and back": handler - inferred - float(header["x-slicewise-queue-seconds"]),
        "queue": float(header["x-slicewise-queue-seconds"]),
        "worker": inferred,
    }


async def measure(count: int) -> list[dict[str, Any]]:
    """Both concurrencies on one platform, the baseline before and after."""
    baseline = in_process(count)
    results: list[dict[str, Any]] = []
    with Stage("--slices", "1x1g:2GiB") as stage:
        stage.build("tensor")
        async with aiohttp.ClientSession() as session:
            await stage.deploy(session, "tensor", "tensor")
            await stage.wait_ready(session, ["tensor"])
        await closed_loop(stage.url, [f"tensor?rows={ROWS}"] * 50, lambda _: b"", 8)
        for clients in (1, 8):
            calls: list[dict[str, float]] = []

            async def client(caller: Caller, share: int, calls: list[dict[str, float]] = calls) -> None:
                for _ in range(share):
                    calls.append(await call(caller))

            caller = Caller(stage.url)
            began = time.perf_counter()
            await asyncio.gather(*(client(caller, count // clients) for _ in range(clients)))
            seconds = time.perf_counter() - began
            caller.close()
            totals = [one["total"] for one in calls]
            p50, p99 = percentile(totals, 0.5), percentile(totals, 0.99)
            base50 = percentile(baseline, 0.5)
            results.append(
                {
                    "case": "warm GPU invocation",
                    "concurrency": clients,
                    "p50_s": p50,
                    "p99_s": p99,
                    "rps": len(calls) / seconds,
                    "baseline": "handler in its own process",
                    "baseline_p50_s": base50,
                    "ratio": p50 / base50,
                    "added_p50_s": p50 - base50,
                    "added_p99_s": p99 - percentile(baseline, 0.99),
                    **{
                        f"{hop} p50_s": statistics.median(one[hop] for one in calls)
                        for hop in calls[0]
                        if hop != "total"
                    },
                }
            )
    return results


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=800)
    write(
        "invocation",
        "A warm GPU invocation through the whole path",
        run(measure(parser.parse_args().count)),
        "Aim: 5 ms added at p50 and concurrency 1 on two cores. Client, gateway, scheduler, broker, function, "
        "GPU manager\n"
        "and worker share the two cores, so concurrency 8 measures the machine's throughput more than the "
        "path's latency.",
    )
