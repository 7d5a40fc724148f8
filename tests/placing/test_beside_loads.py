"""A load does not keep a slice from the workers that are there: turns run beside it."""

from __future__ import annotations

from dataclasses import replace

from scheduler.core.tuning import LIVE
from tests.placing.live import MS, Platform, binds


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
    assert [b.hit for b in binds(p.wait(20 * MS))] == [True]


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
