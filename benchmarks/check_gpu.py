"""`make check-gpu`: what only a real GPU can show, through the platform's own zygote and workers.

One whole GPU is used (the largest MIG instance where there is no whole one; nobody's MIG is changed), for less
than eight minutes. On stdout one JSON document; without a GPU one line that says so. Exit status 1 if a check failed.
`--device cpu` runs the same on a CPU slice, where GPU memory has no meaning and its checks look at processes.
"""

from __future__ import annotations

import argparse
import asyncio
import datetime
import json
import os
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from benchmarks.gpu_bench import Bench, Failed
from benchmarks.report import machine
from gpu_manager.service.devices import nvml
from gpu_manager.service.devices.cpu import CpuSlices
from gpu_manager.service.devices.seam import Device, Devices

TOTAL_S = 450.0
PACKAGE_MIB = 1024
NODE = "check"
MIB = 1 << 20
GIB = 1 << 30
# What NVML's figure moves by for reasons of its own (page tables, other clients' bookkeeping).
TOLERANCE_BYTES = 64 * MIB
HITS = 50
MISSES = 5
ROUNDS = 3

Result = dict[str, Any]


def _hold(condition: bool, what: str) -> None:
    if not condition:
        raise Failed(what)


async def cuda_after_fork(bench: Bench) -> Result:
    """Two workers of one zygote compute, at the same time, and their numbers are those of the CPU."""
    workers = [await bench.fork(), await bench.fork()]
    for worker in workers:
        await worker.load("small")
    answers = await asyncio.gather(*(worker.infer("small") for worker in workers))
    expected = bench.index["small"]["expected"]
    error = 0.0
    for answer, numbers in answers:
        _hold(bool(answer.get("ok")), f"the call failed: {answer.get('error')}")
        _hold(len(numbers) == len(expected), f"{len(numbers)} numbers instead of {len(expected)}")
        error = max(error, *(abs(a - b) for a, b in zip(numbers, expected, strict=True)))
    _hold(error < 1e-3, f"the numbers differ from the CPU's by {error}")
    if bench.device.cuda:
        held = [int(worker.loads["small"]["held_bytes"]) for worker in workers]
        _hold(min(held) > 32 * MIB, f"a worker without a context is not on the GPU: {held}")
    return {"workers": len(workers), "largest_error": error, "isolation_missing": bench.zygote.missing}


async def context_bytes(bench: Bench) -> Result:
    """What a worker takes before its weights: by NVML's difference, NVML's process list, its own account."""
    rows = []
    for _ in range(2):
        before = bench.free_bytes()
        worker = await bench.fork()
        answer = await worker.load("small")
        await worker.infer("small")
        row = {"held_bytes": int(answer["held_bytes"])}
        if bench.device.cuda:
            row["difference_bytes"] = before - bench.free_bytes()
            row["process_bytes"] = bench.devices.process_bytes(bench.device, worker.process.pid)
        rows.append(row)
    if bench.device.cuda:
        largest = max(row["difference_bytes"] for row in rows)
        _hold(largest > 0, "NVML sees nothing of a worker")
        planned = nvml.CONTEXT_BYTES
        _hold(largest <= planned, f"a context of {largest} bytes is larger than the {planned} that are planned for one")
    return {"workers": rows, "planned_bytes": bench.device.overhead_bytes}


async def load_bandwidth(bench: Bench) -> Result:
    """Loading the large package against just reading its bytes, in turns, from a warm page cache."""
    path = bench.folder / "large.package"
    size = int(bench.index["large"]["bytes"])
    _read(path)
    reading, loading = [], []
    for _ in range(ROUNDS):
        reading.append(_read(path))
        worker = await bench.fork("large")
        await worker.load("small")  # makes the context, which is no part of a load's bandwidth
        loading.append(float((await worker.load("large"))["load_s"]))
        await worker.end()
    read_s, load_s = statistics.median(reading), statistics.median(loading)
    return {
        "bytes": size, "read_s": read_s, "load_s": load_s, "read_bytes_per_s": size / read_s,
        "load_bytes_per_s": size / load_s, "ratio": read_s / load_s,
    }  # fmt: skip


def _read(path: Path) -> float:
    block = bytearray(8 * MIB)
    began = time.perf_counter()
    with path.open("rb", buffering=0) as file:
        while file.readinto(block):
            pass
    return time.perf_counter() - began


async def hit_and_miss(bench: Bench) -> Result:
    """Seconds of a call whose model is there, and of one for which a worker is forked and the model loaded."""
    misses, births, loads = [], [], []
    for _ in range(MISSES):
        began = time.perf_counter()
        worker = await bench.fork("large")
        births.append(worker.born_s)
        loads.append(float((await worker.load("large"))["load_s"]))
        _hold(bool((await worker.infer("large"))[0].get("ok")), "the call of a miss failed")
        misses.append(time.perf_counter() - began)
        if len(misses) < MISSES:
            await worker.end()
    hits = []
    for _ in range(HITS):
        began = time.perf_counter()
        await worker.infer("large")
        hits.append(time.perf_counter() - began)
    hit, miss = statistics.median(hits), statistics.median(misses)
    _hold(hit < miss, f"a hit takes {hit} s, a miss {miss} s")
    return {
        "hit_s": hit, "miss_s": miss, "fork_s": statistics.median(births), "load_s": statistics.median(loads),
        "times": miss / hit,
    }  # fmt: skip


async def eviction_gives_memory_back(bench: Bench) -> Result:
    """A worker that goes for another leaves what it held, and the other loads at once."""
    before = bench.free_bytes()
    first = await bench.fork("large")
    await first.load("large")
    during = bench.free_bytes()
    ended_s = await first.end("evicted")
    second = await bench.fork("large")
    await second.load("large")
    _hold(bool((await second.infer("large"))[0].get("ok")), "the next model does not run")
    await second.end()
    return {"process_end_s": ended_s, **await _given_back(bench, before, during, first.process.pid)}


async def sigkill_gives_memory_back(bench: Bench) -> Result:
    """The same for a worker that is killed in the middle of a load."""
    before = bench.free_bytes()
    worker = await bench.fork("large")
    await worker.load("small")
    loading = asyncio.ensure_future(worker.load("large"))
    while not loading.done() and bench.device.cuda and before - bench.free_bytes() < nvml.CONTEXT_BYTES:
        await asyncio.sleep(0.001)  # until some of the weights are there
    during = bench.free_bytes()
    os.kill(worker.process.pid, signal.SIGKILL)
    began = time.perf_counter()
    await asyncio.gather(loading, return_exceptions=True)
    why = await worker.ended
    ended_s = time.perf_counter() - began
    _hold("SIGKILL" in why, f"its end was told as {why!r}")
    return {"process_end_s": ended_s, **await _given_back(bench, before, during, worker.process.pid)}


async def _given_back(bench: Bench, before: int, during: int, pid: int) -> Result:
    _hold(not Path(f"/proc/{pid}/maps").exists() or not Path(f"/proc/{pid}/maps").read_text(), f"{pid} lives on")
    if not bench.device.cuda:
        return {}
    after, seconds = await bench.settled(before - TOLERANCE_BYTES)
    _hold(during < before, "the worker held nothing that NVML sees")
    _hold(after >= before - TOLERANCE_BYTES, f"{before} bytes were free, {after} are")
    return {"free_before": before, "free_during": during, "free_after": after, "until_free_s": seconds}


async def limit_is_an_exception(bench: Bench) -> Result:
    """A call that would pass the worker's limit fails inside the worker, which answers the next one."""
    worker = await bench.fork("hungry")
    limit = bench.device.overhead_bytes + GIB
    await worker.load("hungry", limit)
    answer, _ = await worker.infer("hungry", "little")
    _hold(bool(answer.get("ok")), f"a small call failed: {answer.get('error')}")
    answer, _ = await worker.infer("hungry", "much")
    code = (answer.get("error") or {}).get("code")
    _hold(code in ("over_limit", "overrun"), f"a call for 4 GiB under a limit of {limit} gave {code or 'an answer'}")
    again, _ = await worker.infer("hungry", "little")
    _hold(bool(again.get("ok")), f"the worker does not go on: {again.get('error')}")
    return {"limit_bytes": limit, "needed_bytes": answer.get("needed_bytes") or answer.get("held_bytes"), "code": code}


CHECKS: tuple[Callable[[Bench], Awaitable[Result]], ...] = (
    cuda_after_fork,
    context_bytes,
    load_bandwidth,
    hit_and_miss,
    eviction_gives_memory_back,
    sigkill_gives_memory_back,
    limit_is_an_exception,
)


async def run(devices: Devices, device: Device, package_mib: int) -> list[Result]:
    """Every check, one after the other; one that fails does not keep the others back."""
    results: list[Result] = []
    with tempfile.TemporaryDirectory(prefix="slicewise-check-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o711)
        async with asyncio.timeout(TOTAL_S), Bench(devices, device, Path(folder), package_mib) as bench:
            for check in CHECKS:
                began = time.perf_counter()
                try:
                    found: Result = {"ok": True, **await check(bench)}
                except TimeoutError:
                    raise
                except Exception as error:
                    found = {"ok": False, "error": f"{type(error).__name__}: {error}"}
                await bench.end_all()
                results.append({"check": check.__name__, **found, "seconds": round(time.perf_counter() - began, 3)})
                print(f"{check.__name__}: {'ok' if found['ok'] else found['error']}", file=sys.stderr)
    return results


def choose(kind: str) -> tuple[Devices, Device] | str:
    """The device to check, or why there is none."""
    if kind == "cpu":
        cpu = CpuSlices(NODE, "1x1g:3GiB")
        return cpu, cpu.slices()[0]
    found = nvml.discover(NODE)
    if found is None:
        return "NVML finds no GPU on this machine"
    return found, max(found.slices(), key=lambda d: (d.spec.kind == "gpu", d.spec.memory_bytes))


def main() -> int:
    """Exit status: 0 when all held or there is no GPU, 1 when a check failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("gpu", "cpu"), default="gpu")
    parser.add_argument("--package-mib", type=int, default=PACKAGE_MIB, help="size of the large package")
    given = parser.parse_args()
    document: dict[str, Any] = {
        "command": " ".join(["python -m benchmarks.check_gpu", *sys.argv[1:]]),
        "machine": machine(),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
    }
    chosen = choose(given.device)
    if isinstance(chosen, str):
        print(json.dumps({**document, "skipped": True, "why": f"{chosen}.", "results": []}))
        return 0
    devices, device = chosen
    document["device"] = {
        "kind": device.spec.kind, "uuid": device.cuda, "gpcs": device.spec.gpcs, "bytes": device.spec.memory_bytes,
    }  # fmt: skip
    try:
        document["results"] = asyncio.run(run(devices, device, given.package_mib))
    except TimeoutError:
        document["results"] = []
        document["error"] = f"The checks did not end within {TOTAL_S:g} s."
    finally:
        devices.close()
    print(json.dumps(document, indent=1))
    return 0 if document["results"] and all(result["ok"] for result in document["results"]) else 1


if __name__ == "__main__":
    sys.exit(main())
