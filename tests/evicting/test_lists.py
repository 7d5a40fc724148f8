"""What is known of slices over time, and what of it goes to etcd how often."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from cache_manager.core.lists import FORGET_NS, SECOND_NS, SILENT_NS, Lists, describe
from cache_manager.core.publishing import INTERVAL_NS, Publishing
from proto.types.slices import CachedWorker, SliceSpec, SliceState, SliceStatus, WorkerStatus

SPEC = SliceSpec("n-0", "n", 0, 1, 1000, "cpu")


def _state(sequence: int, *workers: str, turn: str = "") -> SliceState:
    cached = tuple(CachedWorker(key, WorkerStatus.READY, 10, 0) for key in workers)
    return SliceState(SPEC, sequence, "shared", SliceStatus.IDLE, 500, cached, turn=turn)


def _lru(lists: Lists) -> list[str]:
    known = lists.get("n-0")
    assert known
    return [item["worker"] for item in describe(known)["lru"]]


def test_a_late_report_changes_nothing() -> None:
    lists = Lists()
    assert lists.report(_state(2, "a", "b"), 0)
    assert not lists.report(_state(1, "a"), 1)
    assert not lists.report(_state(2, "a"), 1)
    assert _lru(lists) == ["a", "b"]


def test_a_gpu_manager_that_starts_again_is_believed_after_a_silence() -> None:
    lists = Lists()
    lists.report(_state(900, "a"), 0)
    assert not lists.report(_state(1), SILENT_NS - 1)
    assert lists.report(_state(2), SILENT_NS)
    assert _lru(lists) == []


def test_a_silent_slice_is_lost_then_forgotten_and_comes_back() -> None:
    lists = Lists()
    lists.report(_state(1, "a"), 0)
    assert lists.expire(SILENT_NS - 1) == ([], [])
    assert lists.expire(SILENT_NS) == (["n-0"], [])
    known = lists.get("n-0")
    assert known
    assert describe(known)["status"] == "lost"
    assert lists.expire(SILENT_NS + 1) == ([], [])
    lists.report(_state(2, "a"), SILENT_NS + 2)
    assert describe(known)["status"] == "idle"
    assert lists.expire(SILENT_NS + 2 + FORGET_NS) == ([], ["n-0"])
    assert lists.get("n-0") is None


def test_the_age_is_that_of_the_worker_which_stayed_longest() -> None:
    lists = Lists()
    lists.report(_state(1, "a"), 0)
    lists.report(_state(2, "b", "a"), 5)
    assert lists.oldest_age_ns("n-0", 9) == 9
    lists.report(_state(3, "b"), 10)
    assert lists.oldest_age_ns("n-0", 12) == 7
    lists.report(_state(4), 13)
    assert lists.oldest_age_ns("n-0", 14) == 0


def test_the_last_latency_is_that_of_the_last_turn_that_ended() -> None:
    lists = Lists()
    lists.report(_state(1, "a", turn="x"), SECOND_NS)
    lists.report(_state(2, "a", turn="x"), 2 * SECOND_NS)
    lists.report(_state(3, "a", turn="y"), 3 * SECOND_NS)
    known = lists.get("n-0")
    assert known
    assert describe(known)["last_latency_s"] == 2.0
    lists.report(_state(4, "a"), 7 * SECOND_NS)
    assert describe(known)["last_latency_s"] == 4.0


def test_a_lost_slice_keeps_its_spec_in_its_record() -> None:
    lists = Lists()
    lists.report(replace(_state(1), spec=replace(SPEC, gpcs=3)), 0)
    known = lists.get("n-0")
    assert known
    assert describe(known)["gpcs"] == 3


@given(
    steps=st.lists(
        st.tuples(
            st.sampled_from("ab"), st.one_of(st.none(), st.integers(0, 3)), st.integers(0, INTERVAL_NS), st.booleans()
        ),
        max_size=60,
    )
)
def test_the_last_value_always_gets_there_and_never_too_often(
    steps: list[tuple[str, int | None, int, bool]],
) -> None:
    publishing = Publishing()
    etcd: dict[str, int | None] = {}
    wanted: dict[str, int | None] = {}
    times: dict[str, list[int]] = {"a": [], "b": []}
    now = 0

    def attempt(reachable: bool) -> None:
        for key, value in publishing.due(now):
            times[key].append(now)
            if reachable:
                etcd[key] = value["n"] if value else None
            publishing.attempted(key, value, now, done=reachable)

    for key, number, wait, reachable in steps:
        publishing.change(key, None if number is None else {"n": number})
        wanted[key] = number
        attempt(reachable)
        now += wait
    while (due := publishing.next_ns(now)) is not None:
        now = max(now, due)
        attempt(True)
    assert {key: value for key, value in etcd.items() if value is not None} == {
        key: value for key, value in wanted.items() if value is not None
    }
    for moments in times.values():
        gaps = [later - earlier for earlier, later in pairwise(moments)]
        assert all(gap >= INTERVAL_NS for gap in gaps)
