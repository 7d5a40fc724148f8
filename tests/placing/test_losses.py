"""Who goes away, who comes back, and what becomes of the bindings."""

from __future__ import annotations

from dataclasses import replace

from scheduler.core import events as ev
from scheduler.core.instructions import TellOwner, Unbind
from tests.placing.live import MS, Platform, S, binds, key


def told(said: list[object]) -> list[tuple[str, str]]:
    return [(i.binding_id, i.code) for i in said if isinstance(i, TellOwner)]


def unbound(said: list[object]) -> list[str]:
    return [i.binding_id for i in said if isinstance(i, Unbind)]


def steady(p: Platform, ns: int) -> list[object]:
    """Time passes while every slice reports each second."""
    said: list[object] = []
    for _ in range(ns // S):
        said += p.wait(1 * S)
        for slice_id in p.reports:
            said += p.report(slice_id)
    return said


def test_a_broken_owner_loses_its_queued_calls_and_keeps_its_bindings_for_a_while() -> None:
    p = Platform()
    p.know("a", turn=60 * S)
    p.holds("s0", "a")
    first = p.bound("1", "a", late=True)
    p.turn(first)
    p.place("2", "a", late=True)
    p.report("s0", bindings=(first.binding_id,), turn=first.binding_id)
    p.do(ev.OwnerGone(p.now, "gateway"))
    assert p.core.waiting == 0
    assert unbound(steady(p, 5 * S)) == []
    assert p.do(ev.OwnerBack(p.now, "gateway", (first.binding_id,))) == []
    assert unbound(steady(p, 20 * S)) == []
    p.do(ev.OwnerGone(p.now, "gateway"))
    assert unbound(steady(p, 11 * S)) == [first.binding_id]
    assert len(p.core.ledger) == 0


def test_an_owner_that_comes_back_without_a_binding_has_released_it() -> None:
    p = Platform(slices=2)
    p.know("a", load=0)
    kept, dropped = p.bound("1", "a"), p.bound("2", "a")
    assert unbound(p.do(ev.OwnerBack(p.now, "gateway", (kept.binding_id,)))) == [dropped.binding_id]


def test_a_call_sent_again_keeps_its_arrival_time_and_its_skips() -> None:
    p = Platform()
    p.know("a", turn=60 * S)
    p.holds("s0", "a")
    running = p.bound("1", "a", late=True)
    p.turn(running)
    p.place("2", "a", late=True)
    p.place("old", "a", late=True, waited_ns=5 * S, skips=3)
    (bind,) = binds(p.done(running))
    assert bind.request.call_id == "old"
    assert bind.skips == 3
    assert bind.queued_ns == 5 * S


def test_a_node_whose_stream_ends_for_good_loses_its_slices() -> None:
    p = Platform()
    p.know("a", turn=60 * S)
    p.holds("s0", "a")
    first = p.bound("1", "a", late=True)
    p.report("s0", bindings=(first.binding_id,))
    p.do(ev.NodeLost(p.now, "n"))
    p.place("2", "a")
    assert told(p.wait(900 * MS)) == []
    assert told(p.wait(700 * MS)) == [(first.binding_id, "slice_lost")]
    assert p.core.state.holders.of(key("a")) == []
    assert [b.request.call_id for b in binds(p.join())] == ["2"]


def test_a_stream_that_breaks_for_a_moment_costs_nothing_but_what_was_under_way() -> None:
    p = Platform()
    p.know("a", turn=60 * S)
    p.holds("s0", "a")
    known, fresh = p.bound("1", "a"), None
    p.report("s0", bindings=(known.binding_id,))
    p.turn(known)
    p.know("a", turn=1)
    p.done(known)
    fresh = p.bound("2", "a")
    p.do(ev.NodeLost(p.now, "n"))
    p.wait(500 * MS)
    assert told(p.join()) == [(fresh.binding_id, "slice_lost")]
    assert list(p.core.ledger.bound) == [known.binding_id]


def test_a_slice_that_stops_reporting_is_lost_until_it_reports() -> None:
    p = Platform()
    p.know("a")
    first = p.bound("1", "a")
    p.report("s0", bindings=(first.binding_id,))
    assert told(p.wait(5 * S + 500 * MS)) == [(first.binding_id, "slice_lost")]
    assert not p.core.state.by_id["s0"].open
    assert unbound(p.report("s0")) == []  # the word is under way
    assert p.core.state.by_id["s0"].open
    p.now += 2 * S
    assert unbound(p.report("s0")) == [first.binding_id]


def test_a_binding_that_its_slice_never_took_up_is_taken_back() -> None:
    p = Platform()
    p.know("a")
    first = p.bound("1", "a")
    assert told(steady(p, 3 * S)) == [(first.binding_id, "slice_lost")]


def test_bindings_of_an_earlier_scheduler_are_adopted_and_claimed_in_either_order() -> None:
    p = Platform(slices=2)
    p.do(ev.OwnerBack(p.now, "gateway", ("old-1",)))
    p.report("s0", bindings=("old-1",), turn="old-1")
    p.report("s1", bindings=("old-2",))
    assert not p.core.state.by_id["s0"].waiting
    p.do(ev.OwnerBack(p.now, "broker", ("old-2",)))
    assert unbound(steady(p, 15 * S)) == []
    p.do(ev.Released(p.now, "gateway", "old-1"))
    p.do(ev.Released(p.now, "broker", "old-2"))
    assert len(p.core.ledger) == 0


def test_bindings_that_nobody_claims_are_unbound_after_a_grace() -> None:
    p = Platform()
    p.report("s0", bindings=("old-1",), turn="old-1")
    assert unbound(steady(p, 9 * S)) == []
    assert unbound(steady(p, 2 * S))[0] == "old-1"
    assert len(p.core.ledger) == 0


def test_another_owner_cannot_release_a_binding() -> None:
    p = Platform()
    p.know("a")
    first = p.bound("1", "a")
    assert p.do(ev.Released(p.now, "stranger", first.binding_id)) == []
    assert len(p.core.ledger) == 1


def test_a_slice_that_its_node_no_longer_has_disappears_with_its_bindings() -> None:
    p = Platform(slices=2)
    p.know("a")
    first = p.bound("1", "a")
    p.report(first.slice, bindings=(first.binding_id,))
    said = p.do(ev.NodeJoined(p.now, "n", p.specs[1:]))
    assert told(said) == [(first.binding_id, "slice_lost")]
    assert [g.id for g in p.core.state.slices] == ["s1"]


def test_a_load_that_fails_leaves_no_trace_of_the_worker() -> None:
    p = Platform()
    p.know("a")
    first = p.bound("1", "a")
    p.do(ev.Loaded(p.now, "s0", key("a"), 0, 0, "bad_digest"))
    said = p.do(ev.BindingEnded(p.now, first.binding_id, "bad_digest", "The package is broken."))
    assert told(said) == [(first.binding_id, "bad_digest")]
    g = p.core.state.by_id["s0"]
    assert (g.held, g.used_bytes, g.bound) == ({}, 0, {})


def test_a_report_that_overtakes_an_event_is_not_believed_at_once() -> None:
    p = Platform()
    p.know("a", turn=50 * MS)
    p.holds("s0", "a")
    first = p.bound("1", "a", late=True)
    p.report("s0", bindings=(first.binding_id,))
    p.turn(first)
    p.now += 20 * MS
    p.report("s0", turn="")  # the end of the turn is under way
    p.done(first)
    assert p.core.records.turns == 1
    assert p.core.records.turn_ns == 20 * MS
    assert told(p.report("s0", bindings=())) == []  # so is the end of the binding
    assert told(p.do(ev.BindingEnded(p.now, first.binding_id))) == []


def test_a_new_process_of_a_node_has_lost_what_the_old_one_had_at_once() -> None:
    p = Platform()
    p.know("a")
    first = p.bound("1", "a", late=True)
    p.report("s0", bindings=(first.binding_id,))
    p.reports["s0"] = replace(p.reports["s0"], bindings=())
    assert told(p.join()) == [(first.binding_id, "slice_lost")]
