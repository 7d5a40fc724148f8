"""Start-up, memory, and what a long run leaves in etcd.

Seconds from `slicewise up` to ready; PSS of services, zygotes, brokers and function processes with the twelve
functions of the common work deployed, workers (models) counted apart; etcd's file before and after
many warm invocations.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import psutil

from benchmarks.common_work import MODELS, deploy
from benchmarks.load import closed_loop, run
from benchmarks.report import write
from benchmarks.stage import Stage


def kind(process: psutil.Process) -> str:
    """Which part of the platform a process is; forks carry their zygote's command line but a name of their own."""
    name, command = process.name(), " ".join(process.cmdline())
    if name.startswith("sw:"):
        return "workers (models)"
    if name.startswith("sw-b-"):
        return "brokers"
    if name.startswith("work-"):
        return "functions"
    for part in ("gpu_manager.worker", "functions.service.zygote", "functions.service"):
        if part in command:
            return {"gpu_manager.worker": "worker zygotes", "functions.service.zygote": "function zygotes"}.get(
                part, "host"
            )
    for part in ("gpu_manager", "gateway", "scheduler", "cache_manager"):
        if f"{part}.service" in command:
            return part
    return "etcd" if name == "etcd" else "launcher"


async def measure(invocations: int) -> list[dict[str, Any]]:
    """One platform for all three figures."""
    results: list[dict[str, Any]] = []
    with Stage("--slices", "2x1g:4GiB") as stage:
        results.append({"case": "start-up", "value": stage.up_seconds, "unit": "s"})
        stage.build("work")
        await deploy(stage, MODELS)
        await closed_loop(stage.url, [f"work-{number}" for number in range(MODELS)] * 4, lambda _: bytes(4096), 4)
        pss: dict[str, float] = {}
        for process in stage.processes():
            name = kind(process)
            pss[name] = pss.get(name, 0.0) + process.memory_full_info().pss / 1e6
        results += [{"case": f"PSS {name}", "value": value, "unit": "MB"} for name, value in sorted(pss.items())]
        held = sum(value for name, value in pss.items() if name != "workers (models)")
        results.append({"case": "PSS of all but the workers", "value": held, "unit": "MB"})
        file = next(Path(stage.folder).glob("etcd/**/member/snap/db"))
        results.append({"case": "etcd file before", "value": file.stat().st_size / 1e6, "unit": "MB"})
        samples, seconds = await closed_loop(stage.url, ["work-0"] * invocations, lambda _: bytes(4096), 4)
        results.append({"case": "warm invocations", "value": sum(s.status == 200 for s in samples), "unit": ""})
        results.append({"case": "warm invocations a second", "value": len(samples) / seconds, "unit": "1/s"})
        results.append({"case": "etcd file after", "value": file.stat().st_size / 1e6, "unit": "MB"})
    return results


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--invocations", type=int, default=100_000)
    write(
        "footprint",
        "Start-up, memory and etcd's file",
        run(measure(parser.parse_args().invocations)),
        "Aims: under 1 GB beside the models in the common work; etcd's file under 64 MB after 100,000 warm "
        "invocations.",
    )
