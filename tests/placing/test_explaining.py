"""Every placement keeps its reason and what came of it, as many as were asked for and no more."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from scheduler.core import events as ev
from scheduler.core.explaining import explanation
from scheduler.core.tuning import LIVE
from tests.placing.live import MB, MS, Platform, key


def explain(p: Platform, call: str) -> dict[str, Any]:
    found = explanation(p.core, call)
    assert found is not None
    return found


def only(p: Platform, call: str) -> dict[str, Any]:
    (placement,) = explain(p, call)["placements"]
    return placement


def phases(placement: dict[str, Any]) -> dict[str, tuple[float, float]]:
    return {phase["phase"]: (phase["from_s"], phase["took_s"]) for phase in placement["phases"]}


def test_a_miss_tells_its_reason_its_victims_and_its_phases() -> None:
    p = Platform(slices=2, memory=20 * MB)
    for worker in "abc":
        p.know(worker, turn=20 * MS, load=100 * MS)
    p.holds("s0", "a", "b")
    p.holds("s1", "c", "b")
    for slice_id, worker in (("s0", "a"), ("s1", "c")):
        busy = p.bound(f"busy-{worker}", worker, late=True)
        assert busy.slice == slice_id
        p.turn(busy)
    p.know("d", turn=10 * MS, load=50 * MS)
    assert p.place("new", "d", late=True)  # loads run beside turns
    p.wait(60 * MS)
    bind = only(p, "new")
    assert bind["foreseen_victims"] == [key("b")]
    assert bind["evicted"] == []
    assert (bind["expected"], bind["found"], bind["state"]) == ("miss", None, "bound")
    p.do(ev.Loaded(p.now, bind["slice"], key("d"), 55 * MS, 10 * MB, "", (key("b"),)))
    p.do(ev.TurnStarted(p.now, bind["binding"], False))
    assert only(p, "new")["state"] == "running"
    p.wait(8 * MS)
    p.do(ev.TurnEnded(p.now, bind["binding"], 2, 7 * MS))
    p.do(ev.Released(p.now, "gateway", bind["binding"]))

    told = only(p, "new")
    assert told["reason"].startswith(f"load on idle {told['slice']}")
    assert told["policy"] == "lalb"
    assert told["holders"] == []
    assert told["evicted"] == [key("b")]
    assert (told["found"], told["state"], told["code"]) == ("miss", "over", "")
    assert phases(told) == {
        "queued": (0, 0), "loaded": (0.005, 0.055), "waited": (0, 0.06), "inferred": (0.06, 0.008),
    }  # fmt: skip
    assert told["measured"] == {"load_s": 0.055, "turn_s": 0.008, "infer_s": 0.007, "turns": 1, "calls": 2}
    assert told["estimated"] == {"load_s": 0.05, "turn_s": 0.01}
    considered = {g["slice"]: g for g in told["considered"]}
    assert set(considered) == {"s0", "s1"}
    assert [name for name, g in considered.items() if g["chosen"]] == [told["slice"]]
    assert {g["status"] for g in considered.values()} == {"busy"}


def test_a_false_miss_names_who_held_the_model_and_how_long_they_would_have_been_busy() -> None:
    p = Platform(slices=2)
    p.know("a", turn=500 * MS, load=1 * MS)
    p.holds("s0", "a")
    p.turn(p.bound("1", "a", late=True))
    p.turn(p.bound("2", "a", late=True))
    told = only(p, "2")
    assert (told["expected"], told["slice"], told["holders"]) == ("false miss", "s1", ["s0"])
    chosen, holder = told["considered"]
    assert (chosen["slice"], chosen["held"], chosen["free_in_s"]) == ("s1", False, 0)
    assert (holder["slice"], holder["held"], holder["free_in_s"], holder["status"]) == ("s0", True, 0.5, "busy")
    assert only(p, "1")["found"] == "hit"


def test_a_call_tells_how_often_it_was_overtaken_in_line_and_when_placed() -> None:
    p = Platform(policy="lalb", tuning=replace(LIVE, ahead_limit_ns=0, overlap_load=False))
    p.know("a", turn=100 * MS)
    p.know("b", turn=100 * MS, load=10_000 * MS, held=95 * MB)
    p.holds("s0", "a")
    running = p.bound("1", "a", late=True)
    p.turn(running)
    p.place("b1", "b", late=True)
    p.place("a2", "a", late=True)
    (second,) = p.do(ev.TurnEnded(p.now, running.binding_id, 1, MS))
    p.turn(second)
    waiting = explain(p, "b1")["waiting"]
    assert (waiting["skips"], waiting["ahead"], waiting["parked"]) == (1, 0, False)
    assert explain(p, "b1")["placements"] == []
    p.wait(70 * MS)
    p.do(ev.TurnEnded(p.now, second.binding_id, 1, MS))
    told = only(p, "b1")
    assert told["skips"] == 1
    assert phases(told)["queued"] == (0, 0.07)
    assert explain(p, "b1")["waiting"] is None


def test_a_call_that_was_placed_twice_tells_both_and_why_the_first_was_taken_back() -> None:
    p = Platform(slices=2)
    p.know("a")
    first = p.bound("call", "a", late=True)
    p.do(ev.BindingEnded(p.now, first.binding_id, "worker_died", "The worker died."))
    second = p.bound("call~1", "a", late=True, avoid=(first.slice,))
    one, two = explain(p, "call")["placements"]
    assert (one["state"], one["code"], one["why"]) == ("taken back", "worker_died", "The worker died.")
    assert (two["state"], two["slice"], two["call_id"]) == ("bound", second.slice, "call~1")
    assert [told["call_id"] for told in explain(p, "call~1")["placements"]] == ["call~1"]


def test_a_refused_call_tells_why() -> None:
    p = Platform()
    p.know("big", held=200 * MB)
    p.place("call", "big")
    told = explain(p, "call")
    assert told["placements"] == []
    assert told["refused"]["code"] == "model_too_large"


def test_what_is_kept_is_bounded_and_what_is_forgotten_is_unknown() -> None:
    p = Platform(tuning=replace(LIVE, recent=5))
    p.know("a", turn=MS)
    for n in range(20):
        bind = p.bound(f"call~{n}" if n % 2 else str(n), "a", late=True)
        p.turn(bind)
        p.done(bind)
        p.do(ev.Released(p.now, "gateway", bind.binding_id))
    assert explanation(p.core, "14") is None
    assert explanation(p.core, "never") is None
    kept = explain(p, "call")
    assert (kept["kept"], kept["limit"]) == (5, 5)
    assert [told["call_id"] for told in kept["placements"]] == ["call~15", "call~17", "call~19"]
    history = p.core.records.recent
    assert len(history._of_call) == 3  # what goes leaves no index behind


def test_estimates_are_compared_with_what_was_measured() -> None:
    p = Platform()
    p.know("a", turn=10 * MS, load=100 * MS)
    bind = p.bound("1", "a", late=True)
    p.wait(50 * MS)
    p.do(ev.Loaded(p.now, "s0", key("a"), 50 * MS, 10 * MB))
    p.turn(bind)
    p.wait(30 * MS)
    p.done(bind)
    load, turn = p.core.records.load, p.core.records.turn
    assert (load.count, load.real_ns, load.estimated_ns, load.error_ns, load.ratio_sum) == (
        1,
        50 * MS,
        100 * MS,
        50 * MS,
        0.5,
    )
    assert (turn.count, turn.real_ns, turn.estimated_ns, turn.ratio_sum) == (1, 30 * MS, 10 * MS, 3)
    assert load.ratios.index(1) == 2  # at most 0.5
    assert turn.ratios.index(1) == 11  # at most 4
