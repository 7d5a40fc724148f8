"""Who goes when a slice needs room."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cache_manager.core.victims import MIB, victims
from proto.types.errors import SlicewiseError
from proto.types.placing import Demand
from proto.types.slices import CachedWorker, WorkerStatus


def _workers(**sizes: int) -> list[CachedWorker]:
    return [CachedWorker(key, WorkerStatus.READY, size * MIB, index) for index, (key, size) in enumerate(sizes.items())]


def _keys(lru: list[CachedWorker], free: int, needed: int, **more: object) -> tuple[str, ...]:
    return victims("s", lru, free * MIB, "new", needed * MIB, **more).keys  # type: ignore[arg-type]


def test_nobody_goes_while_there_is_room() -> None:
    assert _keys(_workers(a=10, b=10), free=5, needed=5) == ()


def test_the_least_recently_used_go_first_and_no_more_than_needed() -> None:
    lru = _workers(a=10, b=10, c=10)
    assert _keys(lru, free=5, needed=6) == ("a",)
    assert _keys(lru, free=5, needed=15) == ("a",)
    assert _keys(lru, free=5, needed=16) == ("a", "b")
    assert _keys(lru, free=5, needed=35) == ("a", "b", "c")


def test_workers_in_a_turn_are_passed_over() -> None:
    assert _keys(_workers(a=10, b=10, c=10), free=0, needed=15, never=["a"]) == ("b", "c")


def test_workers_that_calls_wait_for_go_last_but_go() -> None:
    lru = _workers(a=10, b=10, c=10)
    assert _keys(lru, free=0, needed=10, keep={"a": Demand(queued=3)}) == ("b",)
    assert _keys(lru, free=0, needed=30, keep={"a": Demand(queued=3)}) == ("b", "c", "a")


def test_among_workers_called_often_the_rarest_goes_first() -> None:
    lru = _workers(a=10, b=10, c=10)
    often = {"a": Demand(0, 9.0), "b": Demand(0, 3.0)}
    assert _keys(lru, free=0, needed=30, keep=often) == ("c", "b", "a")
    assert _keys(lru, free=0, needed=10, keep={**often, "c": Demand(1, 0.0)}) == ("b",)


def test_a_worker_that_outgrew_its_estimate_is_no_victim_of_itself() -> None:
    assert _keys(_workers(new=10, b=10), free=0, needed=10) == ("b",)


def test_a_worker_larger_than_the_slice_is_refused_with_both_sizes() -> None:
    with pytest.raises(SlicewiseError, match=r"41\.0 MiB.*slice s.*40\.0 MiB") as caught:
        _keys(_workers(a=10, b=20), free=10, needed=41)
    assert caught.value.code == "model_too_large"


def test_room_that_others_hold_for_now_is_told_apart() -> None:
    with pytest.raises(SlicewiseError, match=r"10\.0 MiB are free, 20\.0 MiB can be freed, and 10\.0 MiB") as caught:
        _keys(_workers(a=10, b=20), free=10, needed=40, never=["a"])
    assert caught.value.code == "no_slice"


@given(
    sizes=st.lists(st.integers(0, 50), max_size=8),
    never=st.sets(st.integers(0, 7)),
    queued=st.dictionaries(st.integers(0, 7), st.integers(0, 3)),
    free=st.integers(0, 100),
    needed=st.integers(0, 300),
)
def test_victims_suffice_are_allowed_and_none_is_idle_waste(
    sizes: list[int], never: set[int], queued: dict[int, int], free: int, needed: int
) -> None:
    lru = _workers(**{f"w{index}": size for index, size in enumerate(sizes)})
    held = {item.key: item.held_bytes for item in lru}
    forbidden = {f"w{index}" for index in never}
    waiting = {f"w{index}": Demand(count) for index, count in queued.items()}
    can_go = sum(size for key, size in held.items() if key not in forbidden)
    if needed * MIB > free * MIB + can_go:
        with pytest.raises(SlicewiseError) as caught:
            _keys(lru, free, needed, never=forbidden, keep=waiting)
        whole = free * MIB + sum(held.values())
        assert caught.value.code == ("model_too_large" if needed * MIB > whole else "no_slice")
        return
    chosen = _keys(lru, free, needed, never=forbidden, keep=waiting)
    assert not set(chosen) & forbidden
    assert len(set(chosen)) == len(chosen)
    room = free * MIB + sum(held[key] for key in chosen)
    assert room >= needed * MIB
    if chosen:  # the walk stopped as soon as there was room
        assert room - held[chosen[-1]] < needed * MIB
    spared = [key for key in held if key not in forbidden and waiting.get(key, Demand()).queued == 0]
    if any(waiting.get(key, Demand()).queued for key in chosen):
        assert set(spared) <= set(chosen)
    assert [key for key in chosen if waiting.get(key, Demand()).queued == 0] == [key for key in spared if key in chosen]
