"""A worker whose state an invocation has changed is that invocation's own: others go elsewhere while they can."""

from __future__ import annotations

from proto.types.slices import CachedWorker, WorkerStatus
from tests.placing.live import MB, MS, Platform, binds, key


def changed(p: Platform, slice_id: str, by: str) -> list[object]:
    worker = CachedWorker(key("a"), WorkerStatus.READY, 10 * MB, 0, ("m",), by)
    return list(p.report(slice_id, workers=(worker,)))


def test_another_invocation_is_bound_to_a_slice_where_it_need_not_wait_for_it() -> None:
    p = Platform(slices=2)
    p.know("a", turn=5 * MS, load=100 * MS)
    p.holds("s0", "a")
    first = p.bound("stream", "a", late=True)
    assert first.slice == "s0"
    p.turn(first)
    p.done(first)  # its turn is over, its invocation goes on
    changed(p, "s0", first.binding_id)
    second = p.bound("another", "a", late=True)
    assert (second.slice, second.hit) == ("s1", False)


def test_where_there_is_no_other_slice_it_waits_there() -> None:
    p = Platform(slices=1)
    p.know("a", turn=5 * MS, load=100 * MS)
    p.holds("s0", "a")
    first = p.bound("stream", "a", late=True)
    p.turn(first)
    p.done(first)
    changed(p, "s0", first.binding_id)
    assert [b.slice for b in binds(p.place("another", "a", late=True))] == ["s0"]


def test_once_the_invocation_is_over_the_worker_is_a_hit_again() -> None:
    p = Platform(slices=2)
    p.know("a", turn=5 * MS, load=100 * MS)
    changed(p, "s0", "b0")
    p.holds("s0", "a")
    again = p.bound("again", "a", late=True)
    assert (again.slice, again.hit) == ("s0", True)
