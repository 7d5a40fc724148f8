"""A load does not keep a slice from the workers that are there: turns run beside it."""

from __future__ import annotations

from dataclasses import replace

from proto.types.slices import CachedWorker, WorkerStatus
from scheduler.core import events as ev
from scheduler.core.requests import Request
from scheduler.core.tuning import LIVE
from tests.placing.live import MB, MS, Platform, binds, key


def loading(p: Platform) -> None:
    """`a` is on the only slice, and a call has just been bound whose worker `b` must be loaded first."""
    p.know("a", turn=5 * MS)
    p.know("b", turn=5 * MS, load=100 * MS)
    p.holds("s0", "a")
    assert not p.bound("loads", "b", late=True).hit


def test_a_call_for_a_worker_that_is_there_is_bound_while_another_loads() -> None:
    p = Platform()
    loading(p)
    assert [b.request.call_id for b in binds(p.place("hit", "a", late=True))] == ["hit"]


def test_a_second_load_waits_for_the_first() -> None:
    p = Platform()
    p.know("c", turn=5 * MS, load=100 * MS)
    loading(p)
    assert not binds(p.place("another load", "c", late=True))


def test_a_call_for_the_worker_that_loads_waits_for_the_load() -> None:
    p = Platform()
    loading(p)
    assert not binds(p.place("same", "b", late=True))
    assert not binds(p.wait(90 * MS))
    assert not binds(p.wait(5 * MS))
    assert [b.hit for b in binds(p.do(ev.Loaded(p.now, "s0", key("b"), 95 * MS, 10 * MB)))] == []
    assert [b.hit for b in binds(p.wait(5 * MS))] == [True]  # the hand-over before the turn of the first call ends


def test_a_call_that_has_come_waits_for_its_load_all_the_same() -> None:
    p = Platform()
    loading(p)
    (first,) = p.core.ledger.bound
    p.report("s0", bindings=(first,), waiting=(first,))
    p.know("c", turn=5 * MS, load=100 * MS)
    assert not binds(p.place("another load", "c", late=True))
    assert p.core.state.by_id["s0"].remaining(p.now) == 105 * MS
    assert not binds(p.wait(97 * MS))
    assert [b.hit for b in binds(p.wait(2 * MS))] == [False]  # in time for its load to begin when the first is over


def test_loads_of_one_slice_are_expected_one_after_the_other() -> None:
    p = Platform()
    p.know("c", turn=5 * MS, load=100 * MS)
    loading(p)
    g = p.core.state.by_id["s0"]
    expected = {
        worker: p.core.state.ready_ns(g, Request("gateway", worker, key(worker), 0, 0, p.now, 0, 1, late=True))
        for worker in "abc"
    }
    assert expected == {"a": 0, "b": 100 * MS, "c": 200 * MS}


def test_a_worker_can_be_called_once_its_load_is_over_whatever_the_last_report_said() -> None:
    p = Platform()
    p.know("c", turn=5 * MS, load=100 * MS)
    loading(p)
    loads = CachedWorker(key("b"), WorkerStatus.LOADING, 10 * MB, 0)
    p.report("s0", workers=(CachedWorker(key("a"), WorkerStatus.READY, 10 * MB, 0), loads))
    p.do(ev.Loaded(p.now, "s0", key("b"), 95 * MS, 10 * MB))
    p.do(ev.BindingEnded(p.now, next(iter(p.core.ledger.bound))))
    p.bound("loads, too", "c", late=True)
    assert [b.hit for b in binds(p.place("hit", "b", late=True))] == [True]


def test_turns_beside_a_load_still_go_one_at_a_time() -> None:
    p = Platform()
    p.know("a", turn=200 * MS)
    p.know("b", turn=5 * MS, load=100 * MS)
    p.holds("s0", "a")
    p.bound("loads", "b", late=True)
    p.turn(p.bound("hit", "a", late=True))
    assert not binds(p.place("next", "a", late=True))


def test_as_in_the_papers_a_loading_slice_is_busy_for_everyone() -> None:
    p = Platform(tuning=replace(LIVE, overlap_load=False))
    loading(p)
    assert not [b for b in binds(p.place("hit", "a", late=True)) if not b.local]


def test_a_load_begins_when_the_turns_before_it_will_be_over_in_time_though_nothing_happens_then() -> None:
    p = Platform()
    p.know("a", turn=300 * MS)
    p.know("b", load=100 * MS)
    p.holds("s0", "a")
    p.turn(p.bound("1", "a", late=True))
    assert not binds(p.place("2", "b", late=True))
    due = p.core.next_timer()
    assert due is not None
    assert due <= p.now + 200 * MS
    (bind,) = binds(p.wait(201 * MS))
    assert (bind.request.call_id, bind.hit) == ("2", False)
