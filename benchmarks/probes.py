"""What becomes of a queued call whose client leaves: one slice, one call at a time.

A runs for 1.5 s. B is queued behind it and its client leaves after 0.3 s; then C comes, and has 0.9 s of A to wait for.
"""

from __future__ import annotations

import asyncio
from typing import Any

import aiohttp

from benchmarks.load import Caller, run
from benchmarks.report import write
from benchmarks.stage import Stage

CALL_S = 1.5
LEAVES_AFTER_S = 0.3
ROUNDS = 5


async def measure() -> list[dict[str, Any]]:
    """Rounds on one platform; B's function is its own, so that its calls can be told from the others'."""
    rows = []
    with Stage("--slices", "1x1g:2GiB") as stage:
        stage.build("work")
        names = ["a", "b", "c"]
        async with aiohttp.ClientSession() as session:
            for name in names:
                await stage.deploy(session, name, "work", LOAD_S="0", CALL_S=str(CALL_S))
            await stage.wait_ready(session, names)
        caller, leaving = Caller(stage.url), Caller(stage.url)
        body = bytes(4096)
        for name in names:
            await caller.post(name, body)
        for _ in range(ROUNDS):
            a = asyncio.create_task(caller.post("a", body))
            await asyncio.sleep(LEAVES_AFTER_S)
            b = asyncio.create_task(leaving.post("b", body))
            await asyncio.sleep(LEAVES_AFTER_S)
            b.cancel()
            c = await caller.post("c", body)
            after = await caller.post("a", body)
            assert (await a).status == c.status == after.status == 200
            # Had B run, it would have done so before C, or between C and what came after it.
            waited = float(c.headers["x-slicewise-queue-seconds"])
            rows.append({"c_waited_s": waited, "c_whole_s": c.seconds, "after_waited_s": after.seconds - CALL_S})
        caller.close()
        leaving.close()
    return rows


if __name__ == "__main__":
    write(
        "probes",
        "A queued call whose client left",
        run(measure()),
        "One slice; calls of 1.5 s. C comes when 0.9 s of A are left. Aim: C waits 0.95 s at most, so B has not\n"
        "run; and what comes after C waits for nothing. The best peer waited 1.31 s, the others 2.40 s.",
    )
