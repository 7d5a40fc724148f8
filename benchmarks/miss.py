"""A miss through the zygote against a fresh process that imports torch and loads the same model.

The platform's figure is X-Slicewise-Load-Seconds of calls whose model was not on the slice: two functions on a
slice that holds one of them, called in turns. The fresh process is measured between them, in the same run.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import aiohttp

from benchmarks.common_work import worker_bytes
from benchmarks.load import closed_loop, run
from benchmarks.report import write
from benchmarks.stage import Stage

FRESH = """
import sys, torch
torch.set_num_threads(1)
class Work(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.matrix = torch.nn.Parameter(torch.empty(1024, 2048))
    def forward(self, vector):
        return vector @ self.matrix
model = Work()
model.load_state_dict(torch.load(sys.argv[1]))
with torch.no_grad():
    model(torch.zeros(1024))
"""


async def measure(rounds: int) -> list[dict[str, Any]]:
    """Misses and fresh processes in turns."""
    weights = Path(tempfile.mkdtemp()) / "weights.pt"
    make = "import sys, torch; torch.save({'matrix': torch.randn(1024, 2048)}, sys.argv[1])"
    subprocess.run([sys.executable, "-c", make, weights], check=True)
    held = await worker_bytes()
    missed: list[float] = []
    whole: list[float] = []
    fresh: list[float] = []
    with Stage("--slices", f"1x1g:{int(held * 1.5) // 2**20}MiB") as stage:
        stage.build("work")
        names = ["work-0", "work-1"]
        async with aiohttp.ClientSession() as session:
            for number, name in enumerate(names):
                await stage.deploy(session, name, "work", SEED=str(number), LOAD_S="0", CALL_S="0")
            await stage.wait_ready(session, names)
        await closed_loop(stage.url, names, lambda _: bytes(4096), 1)
        for _ in range(rounds):
            samples, _ = await closed_loop(stage.url, names, lambda _: bytes(4096), 1)
            for sample in samples:
                if sample.status != 200 or sample.hit is not False:
                    raise RuntimeError(f"expected a miss: {sample}")
                missed.append(float(sample.headers["x-slicewise-load-seconds"]))
                whole.append(sample.seconds)
            began = time.perf_counter()
            subprocess.run([sys.executable, "-c", FRESH, weights], check=True)
            fresh.append(time.perf_counter() - began)
    return [
        {
            "case": "a miss: evict, fork from the zygote, load",
            "load_p50_s": statistics.median(missed),
            "whole_call_p50_s": statistics.median(whole),
            "fresh_process_p50_s": statistics.median(fresh),
            "times_faster": statistics.median(fresh) / statistics.median(missed),
        }
    ]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=10)
    write(
        "miss",
        "A miss through the zygote against a fresh process",
        run(measure(parser.parse_args().rounds)),
        "The model is one 8 MiB matrix. Aim: five times faster.",
    )
