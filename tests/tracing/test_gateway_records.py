"""A real gateway writes down the GPU calls that it served, and nothing of what they carried."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from proto.wire.arrival_log import read_arrivals
from tests.gateway_rig.rig import Rig, eventually
from tests.tracing.commands import Commands

pytestmark = pytest.mark.live
SECRET = b"what nobody else may read"


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    made = Rig(tmp_path_factory.mktemp("recording"), record_arrivals="traces/arrivals", record_files=2)
    try:
        made.start()
        yield made
    finally:
        made.close()


@pytest.fixture
def path(rig: Rig) -> Path:
    return rig.folder / "state" / "traces" / "arrivals"


def test_gpu_calls_are_recorded_across_a_restart(rig: Rig, path: Path, commands: Commands) -> None:
    rig.deploy("gpu", labels={"com.slicewise.gpu": "true"}, annotations={"com.slicewise.sla": "2s"})
    rig.deploy("cpu")
    before_ns = time.time_ns()
    asked = [{}, {"X-Slicewise-Batch": "8"}, {"X-Slicewise-Sla": "500ms", "Authorization": SECRET.decode()}]
    for headers in asked:
        assert rig.ask("POST", "/function/gpu", SECRET, headers).status == 200
        assert rig.ask("POST", "/function/cpu", SECRET, headers).status == 200
    eventually(lambda: rig.metric("slicewise_gateway_arrivals_total", recorded="true") == len(asked))
    assert rig.metric("slicewise_gateway_arrivals_total", recorded="false") == 0
    arrivals, cut = read_arrivals(path)
    assert [(a.function, a.batch, a.sla_ns) for a in arrivals] == [
        ("gpu.openfaas-fn", 0, 2 * 10**9), ("gpu.openfaas-fn", 8, 2 * 10**9), ("gpu.openfaas-fn", 0, 5 * 10**8),
    ]  # fmt: skip
    assert cut == 0
    assert before_ns - 10**9 <= arrivals[0].at_ns <= arrivals[1].at_ns <= arrivals[2].at_ns <= time.time_ns() + 10**9
    assert SECRET not in path.read_bytes()

    rig.stop_gateway(kill=True)
    with path.open("ab") as file:
        file.write(b"[17645")  # as a crash leaves it
    rig.start_gateway()
    eventually(lambda: rig.describe("gpu").get("availableReplicas"))
    assert rig.ask("POST", "/function/gpu", b"x", {"X-Slicewise-Batch": "3"}).status == 200
    rig.stop_gateway()
    again, cut = read_arrivals(path)
    assert ([a.batch for a in again], cut) == ([0, 8, 0, 3], 1)
    assert again[:3] == arrivals
    made = commands.trace(path, "--map", "popularity", "--batches", "2")
    assert [(r.model, r.batch, r.sla_ns) for r in made.requests] == [
        ("a", 2, 2 * 10**9), ("a", 8, 2 * 10**9), ("a", 2, 5 * 10**8), ("a", 3, 2 * 10**9),
    ]  # fmt: skip
    assert made.requests[3].at_ns == again[3].at_ns - again[0].at_ns
    rig.start_gateway()


def test_a_file_of_something_else_keeps_the_gateway_from_starting(rig: Rig, path: Path) -> None:
    rig.stop_gateway()
    kept = path.read_bytes()
    path.write_text(json.dumps({"mine": True}))
    with pytest.raises(AssertionError, match="record_arrivals"):
        rig.start_gateway()
    assert rig.stop_gateway() == 1
    path.write_bytes(kept)
    rig.start_gateway()
