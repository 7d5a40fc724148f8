"""What interposition costs: code that does not touch cuda, many small calls, and the way of a call's tensors.

Each is a ratio of two sides that take turns in one run, so that both meet the same load of the machine. Times of
code in one process are CPU seconds, which other processes disturb least; times of calls are seconds.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import json
import random
import statistics
import tempfile
import wave
from typing import Any

import aiohttp

from benchmarks.load import Caller, run
from benchmarks.report import write
from benchmarks.sides import ROOT, Side
from benchmarks.stage import Stage

INTERPOSED = {
    "PYTHONPATH": str(ROOT / "functions" / "runtime"),
    "SLICEWISE_GPU": "1",
    "SLICEWISE_SOCKET": "/nowhere",  # opened lazily, and this code has no reason to
}
PLAIN = {"PYTHONPATH": "", "SLICEWISE_GPU": "", "SLICEWISE_SOCKET": ""}
SPEECH = ROOT / "examples" / "speech"
WINDOW, SMALL_CALLS = 512, 300
TENSOR_BYTES = 600_000
LAYERS = (1, 32)  # of one round of the untouched loop
PRODUCTS = 256  # of one turn
MS = 1e3


def row(case: str, unit: str, here: list[float], there: list[float], aim: str, **more: Any) -> dict[str, Any]:
    """Two sides by their medians, and the median of the ratios of turns that followed each other."""
    ratio = statistics.median(one / other for one, other in zip(here, there, strict=True))
    return {
        "case": case,
        "unit": unit,
        "with": statistics.median(here),
        "without": statistics.median(there),
        "ratio": ratio,
        "aim": aim,
        "turns": len(here),
        **more,
    }


def untouched(processes: int, turns: int) -> list[dict[str, Any]]:
    """The loop with interposition and twice without, the second for what the machine's noise alone makes of it."""
    order = random.Random(1)
    loops: dict[int, tuple[list[float], ...]] = {layers: ([], [], []) for layers in LAYERS}
    imports: tuple[list[float], ...] = ([], [], [])
    for _ in range(processes):
        with (
            Side("loop", environment=INTERPOSED) as here,
            Side("loop", environment=PLAIN) as there,
            Side("loop", environment=PLAIN) as again,
        ):
            sides = (here, there, again)
            for number, side in enumerate(sides):
                imports[number].append(side.ready["cpu_s"] * MS)
                side.turn(count=PRODUCTS, layers=1)
            for _ in range(turns):
                for layers, taken in loops.items():
                    for number in order.sample(range(len(sides)), len(sides)):
                        took = sides[number].turn(count=PRODUCTS // layers, layers=layers)
                        taken[number].append(took["cpu_s"] * MS)
    with Side("activation") as side:
        switched = [side.turn()["cpu_s"] * MS for _ in range(max(5, turns // 2))]
    rows = []
    for layers, (one, other, third) in loops.items():
        case = f"a torch loop that never says cuda, {layers} product{'s' if layers > 1 else ''} a round"
        noise = row("", "", third, other, "")["ratio"]
        rows.append(row(case, "ms of CPU", one, other, "1.01", noise=noise))
    noise = row("", "", imports[2], imports[1], "")["ratio"]
    rows.append(row("import torch", "ms of CPU", imports[0], imports[1], "", noise=noise))
    rows.append(
        {
            "case": "interposition switched on where torch is imported",
            "unit": "ms of CPU",
            "with": statistics.median(switched),
            "without": 0.0,
            "aim": "30 ms more",
            "turns": len(switched),
        }
    )
    return rows


def clip() -> bytes:
    """So much of the example's recording that the detector is called SMALL_CALLS times."""
    with wave.open(str(SPEECH / "speech.wav")) as whole:
        parameters, samples = whole.getparams(), whole.readframes(SMALL_CALLS * WINDOW)
    file = io.BytesIO()
    with wave.open(file, "wb") as part:
        part.setparams(parameters)
        part.writeframes(samples)
    return file.getvalue()


async def through_slices(turns: int) -> list[dict[str, Any]]:
    """Small calls and tensors, on one platform with one slice of one thread."""
    body = clip()
    with Stage("--slices", "1x1g:1GiB") as stage, tempfile.NamedTemporaryFile() as file:
        file.write(body)
        file.flush()
        stage.build("tensor")
        stage.slicewise("build", str(SPEECH), "-t", "speech")
        async with aiohttp.ClientSession() as session:
            for name in ("tensor", "speech"):
                await stage.deploy(session, name, name)
            await stage.wait_ready(session, ["tensor", "speech"])
        caller = Caller(stage.url)
        try:
            with Side("handler", str(SPEECH / "handler.py"), file.name) as local:
                small = await small_calls(caller, local, body, turns)
            with Side("shared_memory", str(TENSOR_BYTES)) as bare:
                tensors = await tensor_calls(caller, bare, turns)
        finally:
            caller.close()
    return [*small, *tensors]


async def small_calls(caller: Caller, local: Side, body: bytes, turns: int) -> list[dict[str, Any]]:
    """The detector's invocation here and there, and of the time here the part that the worker computes."""
    here, there, inside = [], [], []
    for number in range(turns + 2):
        sample = await caller.post("speech", body)
        own = await asyncio.to_thread(local.turn)
        if sample.status != 200 or json.loads(sample.body) != own["body"]:
            raise RuntimeError(f"{sample.status} {sample.body!r}, locally {own['body']}")
        if number >= 2:  # both are warm
            here.append(sample.seconds * MS)
            there.append(own["seconds"] * MS)
            inside.append(float(sample.headers["x-slicewise-infer-seconds"]) * MS)
    case = f"{SMALL_CALLS} small calls an invocation (the speech detector)"
    return [row(case, "ms", here, there, "3", on_slice=statistics.median(inside))]


async def tensor_calls(caller: Caller, bare: Side, turns: int, count: int = 50) -> list[dict[str, Any]]:
    """Model calls with 600 kB each way, timed in the handler, against the same bytes through bare shared memory."""
    here, there, inside = [], [], []
    for number in range(turns + 2):
        sample = await caller.post(f"tensor?count={count}", b"")
        own = await asyncio.to_thread(bare.turn, count=count)
        if sample.status != 200:
            raise RuntimeError(f"{sample.status} {sample.body!r}")
        if number >= 2:
            here.append(json.loads(sample.body)["seconds"] / count * MS)
            there.append(own["seconds"] / count * MS)
            inside.append(float(sample.headers["x-slicewise-infer-seconds"]) / count * MS)
    case = "a call with 600 kB of tensors each way, against memfds between two processes"
    return [row(case, "ms", here, there, "3", on_slice=statistics.median(inside))]


NOTES = """The sides of each row take turns, in random order where they are processes of their own; `ratio` is
the median of the ratios of neighbouring turns. The machine was shared with other work while this ran, which is why:
compare within a row, not with another day's page. Rows of CPU time count the process's own seconds.

A round of the loop draws a tensor, multiplies it, converts and sums it: the draw and the conversion are calls that
interposition wraps, whether cuda is meant or not, and cost a microsecond or two more each. `noise` is the ratio of
two sides that are both without: nothing smaller than its distance from 1 means anything.

`on_slice` is what of `with` the worker needs for its calls: arguments out of their memory, the model, the check
whether it has changed itself, the answer into memory. The detector keeps state, so that check finds something 300
times. The bare side of the last row computes nothing: it copies 600,000 bytes into a memfd, hands that over a Unix
socket, copies them out, and the same back.

Aims: 1 % on untouched code, 30 ms at import, three times the loop in one process, three times bare memory."""


def main() -> None:
    """Measure and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=40)
    parser.add_argument("--processes", type=int, default=8)
    given = parser.parse_args()
    rows = untouched(given.processes, given.turns)
    write("interposition", "What interposition costs", rows + run(through_slices(given.turns)), NOTES)


if __name__ == "__main__":
    main()
