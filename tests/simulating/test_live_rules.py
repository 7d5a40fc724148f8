"""`ahead_s` and `overlap_load`: a scenario under the platform's own rules, in exact virtual time."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proto.types.errors import SlicewiseError
from simulator.engine import simulate
from simulator.live_engine import LiveEngine
from simulator.live_policy import AsLive
from simulator.scenario import policy_of, scenario
from tests.simulating.scenarios import documents, rows, run, small

ONE = [(1, 2.0)]
MODELS = {"a": (1.0, 1.0, 0.5), "b": (1.0, 1.0, 0.5), "c": (1.0, 1.0, 0.5)}


def live(**more: Any) -> dict[str, Any]:
    return {"name": "lalb", **more}


def result(doc: dict[str, Any], policy: dict[str, Any]) -> dict[str, Any]:
    from simulator.report import document

    made = scenario(doc)
    return document(simulate(made, policy_of(policy)))


def test_zero_and_false_are_the_papers_rules_to_the_letter() -> None:
    doc = small(ONE, MODELS, (0, "a"), (0.1, "b"), (0.2, "a"), (0.3, "c"))
    assert result(doc, live(ahead_s=0, overlap_load=False)) == run(doc, live())


def test_a_load_runs_beside_the_turn_of_a_worker_that_is_there() -> None:
    doc = small(ONE, MODELS, (0, "a"), (0.2, "a"), (1.1, "b"))
    assert rows(result(doc, live())) == [("g0", 0, 1.5, False), ("g0", 1.5, 2.0, True), ("g0", 2.0, 3.5, False)]
    assert rows(result(doc, live(overlap_load=True, ahead_s=1))) == [
        ("g0", 0, 1.5, False), ("g0", 1.5, 2.0, True), ("g0", 1.1, 2.6, False),
    ]  # fmt: skip


def test_without_ahead_a_load_begins_when_turns_will_be_over_before_it_is() -> None:
    doc = small(ONE, MODELS | {"b": (1.0, 0.3, 0.5)}, (0, "a"), (1.1, "b"))
    assert rows(result(doc, live())) == [("g0", 0, 1.5, False), ("g0", 1.5, 2.3, False)]
    assert rows(result(doc, live(overlap_load=True))) == [("g0", 0, 1.5, False), ("g0", 1.2, 2.0, False)]


def test_a_worker_in_its_turn_is_no_victim() -> None:
    doc = small([(1, 1.0)], MODELS, (0, "a"), (1.1, "b"))
    assert rows(result(doc, live(overlap_load=True))) == [("g0", 0, 1.5, False), ("g0", 1.5, 3.0, False)]


def test_loads_run_one_at_a_time() -> None:
    doc = small([(1, 3.0)], MODELS, (0, "a"), (0, "b"), (0, "c"))
    told = rows(result(doc, live(overlap_load=True)))
    assert sorted(start for _, start, _, _ in told) == [0, 1, 2]
    assert sorted(finish for _, _, finish, _ in told) == [1.5, 2.5, 3.5]


def test_what_is_bound_ahead_waits_at_the_slice() -> None:
    doc = small([(1, 3.0), (1, 3.0)], MODELS, (0, "a"), (1.4, "b"), (1.4, "b"))
    loaded = result(doc, live(ahead_s=0.2))["requests"]
    # The second b finds g1 busy with the first for 1.5 s; g0 will be free in 0.1 s, so it is taken as idle now.
    assert [(r["slice"], r["start_s"]) for r in loaded] == [("g0", 0), ("g1", 1.4), ("g0", 1.5)]
    assert [r["slice"] for r in result(doc, live())["requests"]] == ["g0", "g1", "g0"]


def test_the_parameters_are_told_and_bad_ones_are_refused() -> None:
    doc = small(ONE, MODELS, (0, "a"))
    told = result(doc, live(ahead_s=0.05, overlap_load=True))["policy"]
    assert told == {"name": "lalb", "o3_limit": 25, "ahead_s": 0.05, "overlap_load": True}
    assert result(doc, live())["policy"] == {"name": "lalb", "o3_limit": 25}
    for bad in ({"ahead_s": -1}, {"ahead_s": "x"}, {"ahead_s": 11}, {"overlap_load": 1}, {"ahead_s": float("nan")}):
        with pytest.raises(SlicewiseError) as refused:
            scenario(doc | {"policy": live(**bad)})
        assert refused.value.code == "bad_policy"
        assert next(iter(bad)) in refused.value.message


def test_workers_that_are_called_often_are_kept_whatever_their_batches() -> None:
    table = {"table": {"1": {"2": 0.01, "8": 0.03}}}
    doc = small([(1, 2.0)], MODELS, *[(n / 20, "ab"[n % 7 == 0], None, 2 + 6 * (n % 2)) for n in range(200)], (5, "c"))
    for model in doc["models"].values():
        model["infer_s"] = table
    doc["requests"][-1]["batch"] = 2
    told = result(doc, live(ahead_s=0.001, overlap_load=True))["requests"]
    assert not told[-1]["hit"]
    assert [r["hit"] for r in told].count(False) <= 5


@settings(max_examples=150, deadline=None)
@given(documents(), st.sampled_from([0, 0.01, 0.3, 2.0]), st.booleans())
def test_turns_and_loads_of_a_slice_never_overlap_and_memory_holds_all(
    doc: dict[str, Any], ahead_s: float, overlap_load: bool
) -> None:
    made = scenario(doc)
    policy = AsLive(policy_of(made.policy), round(ahead_s * 1e9), overlap_load)
    engine = LiveEngine(made, policy)
    while engine.step():
        for g in engine._live:
            held = sum(worker.held_bytes for worker in g._lru.values())
            assert g.free_bytes == g.spec.memory_bytes - held
            assert made.preloaded or g.free_bytes >= -1
            assert list(engine.core.state.by_id[g.spec.id].held) or not g.held
            if g.loading is not None and g.running is not None:
                assert overlap_load
                assert g.loading.model != g.running.bind.request.worker
    done = engine.run()
    assert len(done.works) == len(made.requests)
    assert not engine.core.ledger.bound
    for g in made.slices:
        works = sorted((w for w in done.works if w.bind.slice == g.id), key=lambda w: (w.turn_ns, w.finish_ns))
        for before, after in pairwise(works):
            assert before.finish_ns <= after.turn_ns
        for work in works:
            assert work.turn_ns >= work.start_ns + work.load_ns
        loads = sorted((w.start_ns, w.start_ns + w.load_ns) for w in works if not w.hit)
        assert all(one[1] <= two[0] for one, two in pairwise(loads))
    again = simulate(made, policy)
    assert [(w.bind.slice, w.finish_ns) for w in again.works] == [(w.bind.slice, w.finish_ns) for w in done.works]
