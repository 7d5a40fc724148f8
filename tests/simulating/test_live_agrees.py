"""A live run is explained call by call, replayed to the letter, and simulated near what it was."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from scheduler.service.recorded_scenario import Recorded, read_recording, scenario_of
from scheduler.service.replaying import replay
from simulator.engine import simulate
from simulator.report import summary
from simulator.scenario import policy_of, scenario
from tests.platform_functions import deploy, scrape
from tests.platform_rig import Platform, Reply

pytestmark = pytest.mark.live

NAMES = ("model-0", "model-1", "model-2", "model-3")
CALLS = 300
RATE = 10.0
EMULATED = {
    "slices": [{"id": f"e{number}", "gpcs": 1, "memory_gb": 4.0} for number in range(2)],
    "models": {
        name: {"memory_gb": 2.5 if number == 3 else 1.9, "load_s": 0.3, "infer_s": {"fixed": 0.05, "per_item": 0.0}}
        for number, name in enumerate(NAMES)
    },
    "requests": [],
}


@dataclass
class LiveRun:
    """What was asked and answered; the recording is read when everything has ended."""

    platform: Platform
    replies: list[Reply]
    lines: list[str]
    measured: Recorded


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveRun]:
    file = tmp_path_factory.mktemp("emulated") / "scenario.json"
    file.write_text(json.dumps(EMULATED))
    platform = Platform(("--emulate", str(file)), {"SLICEWISE_SCHEDULER_RECORD_EVENTS": "events.jsonl"})
    try:
        platform.up()
        platform.cli("build", str(Path(__file__).parent / "functions" / "matrix"), "-t", "matrix")
        for name in NAMES:
            deploy(platform, name, "matrix", gpu=True)
        replies = _traffic(platform)
        path = next(platform.state_dir.rglob("events.jsonl"))
        platform.wait(lambda: _is_over(path, len(replies)), "the recording does not tell the last turn")
        lines = path.read_text().splitlines(keepends=True)
        yield LiveRun(platform, replies, lines, read_recording(lines))
    finally:
        platform.remove()


def _traffic(platform: Platform) -> list[Reply]:
    """Poisson arrivals, the first model as often as all others; the same draw in every run."""
    draw = random.Random(5)
    at, plan = 0.0, []
    for _ in range(CALLS):
        at += draw.expovariate(RATE)
        plan.append((at, draw.choices(NAMES, (4, 2, 1, 1))[0]))
    with ThreadPoolExecutor(64) as pool:
        began = time.monotonic()
        replies = []
        for at, name in plan:
            time.sleep(max(0.0, began + at - time.monotonic()))
            replies.append(pool.submit(platform.call, name))
        return [reply.result() for reply in replies]


def _is_over(path: Path, calls: int) -> bool:
    """The file is written in the background: all calls have had a turn that ended."""
    text = path.read_text()
    if text.count('["event", "TurnEnded"') < calls:
        return False
    return len(read_recording(text.splitlines(keepends=True)).calls) == calls


def _explained(run: LiveRun, reply: Reply) -> dict[str, Any]:
    answer = run.platform.system(f"/system/scheduler/explain/{reply.headers['x-call-id']}")
    assert answer.status == 200, answer.text
    document: dict[str, Any] = answer.json()
    return document


def test_every_call_is_explained_as_its_answer_says(run: LiveRun) -> None:
    assert {reply.status for reply in run.replies} == {200}
    evicted = overtaken = 0
    for reply in run.replies:
        told = _explained(run, reply)["placements"][-1]
        assert told["slice"] == reply.headers["x-slicewise-slice"]
        assert told["found"] is not None
        assert ("hit" if told["found"] == "hit" else "miss") == reply.headers["x-slicewise-cache"]
        assert told["reason"]
        assert [g["slice"] for g in told["considered"] if g["chosen"]] == [told["slice"]]
        phases = {phase["phase"] for phase in told["phases"]}
        assert {"queued", "waited", "inferred"} <= phases
        evicted += len(told["evicted"])
        overtaken += told["skips"]
    assert evicted > 0  # four models, and two at most fit a slice
    print(f"\n{evicted} evictions were told of, calls were overtaken {overtaken} times")


def test_a_person_reads_why(run: LiveRun) -> None:
    call_id = next(
        reply.headers["x-call-id"]
        for reply in reversed(run.replies)
        if reply.headers["x-slicewise-cache"] == "miss" and _explained(run, reply)["placements"][-1]["evicted"]
    )
    page = run.platform.cli("explain", call_id).stdout
    for part in (call_id, "why", "evicted", "overtaken", "queued", "loaded", "inferred", "free memory"):
        assert part in page, page
    print(f"\n{page}")
    document = json.loads(run.platform.cli("explain", call_id, "--json").stdout)
    assert document["call_id"] == call_id
    assert document["placements"][-1]["reason"] in page
    unknown = run.platform.cli("explain", "no-such-call", check=False)
    assert unknown.returncode == 1
    assert "keeps the last 1,000 placements" in unknown.stderr
    for path in ("no-such-call", "no/such%2Fcall%3F"):
        answer = run.platform.system(f"/system/scheduler/explain/{path}")
        assert answer.status == 404
        assert "keeps the last 1,000 placements" in answer.text
    assert run.platform.request("/system/scheduler/explain/" + call_id).status == 401


def test_the_same_events_give_a_fresh_core_the_same_decisions(run: LiveRun) -> None:
    done = replay(run.lines)
    assert done.difference is None
    assert done.events > 3 * CALLS
    assert done.instructions > CALLS


def test_estimates_are_measured(run: LiveRun) -> None:
    found = scrape(run.platform, "scheduler")
    for kind in ("turn", "load"):
        count = found[f'slicewise_scheduler_estimate_ratio_count{{kind="{kind}"}}']
        assert count > 0
        ratio = found[f'slicewise_scheduler_estimate_ratio_sum{{kind="{kind}"}}'] / count
        print(f"\n{kind}s: {count:.0f} measured, on average {ratio:.2f} of what was estimated")


def test_the_simulator_comes_near_what_was_served(run: LiveRun) -> None:
    live = run.measured
    assert len(live.calls) == CALLS
    asked = {"live rules": {"ahead_s": live.handover_s, "overlap_load": True}, "paper's rules": {}}
    print(
        f"\nserved: mean {live.mean_latency_s:.3f} s, misses {live.miss_ratio:.3f}, hand-over {live.handover_s:.4f} s"
    )
    means = {}
    for rules, more in asked.items():
        document = scenario_of(live, {"name": "lalb", **more})
        told = summary(simulate(scenario(document), policy_of(document["policy"])))
        means[rules] = told["mean_latency_s"]
        difference = told["mean_latency_s"] / live.mean_latency_s - 1
        print(f"{rules}: mean {told['mean_latency_s']:.3f} s ({difference:+.1%}), misses {told['miss_ratio']:.3f}")
    # Processor time that others took is in the measured durations, but not in the waits between them.
    assert 0.1 < means["live rules"] / live.mean_latency_s < 2.5
