"""What the live core adds to the papers: bindings that do not occupy, hand-overs, deadlines, limits, refusals."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduler.core import events as ev
from scheduler.core.instructions import Bind, Keep, Refuse, TellOwner, Unbind
from scheduler.core.policies.registry import make_policy
from scheduler.core.tuning import LIVE
from tests.placing.live import MB, MS, Platform, S, binds, key, refusals


def test_a_binding_whose_call_does_not_come_holds_its_slice_until_its_expected_end_only() -> None:
    p = Platform()
    for worker in "ab":
        p.know(worker, turn=20 * MS, gap=10 * MS)
    p.holds("s0", "a", "b")
    p.bound("sleeps", "a")
    assert not binds(p.place("waits", "b", late=True))
    said = p.wait(29 * MS)
    assert [b.request.call_id for b in binds(said)] == ["waits"]
    assert p.now == p.core.state.now_ns


def test_the_next_call_is_bound_shortly_before_the_slice_is_free() -> None:
    p = Platform()
    p.know("a", turn=100 * MS)
    p.holds("s0", "a")
    first = p.bound("1", "a", late=True)
    p.turn(first)
    assert not binds(p.place("2", "a", late=True))
    assert not binds(p.wait(97 * MS))
    assert [b.request.call_id for b in binds(p.wait(2 * MS))] == ["2"]
    assert not binds(p.place("3", "a", late=True))  # one ahead is enough


def test_the_gap_to_the_first_call_is_added_to_what_is_bound_ahead() -> None:
    p = Platform()
    p.know("a", turn=100 * MS, gap=30 * MS)
    p.holds("s0", "a")
    p.turn(p.bound("1", "a", late=True))
    p.place("2", "a")
    assert binds(p.wait(69 * MS))


def test_without_ahead_a_slice_in_a_turn_is_busy() -> None:
    p = Platform(tuning=replace(LIVE, ahead_limit_ns=0))
    p.know("a", turn=100 * MS)
    p.holds("s0", "a")
    first = p.bound("1", "a", late=True)
    p.turn(first)
    p.place("2", "a", late=True)
    assert not binds(p.wait(300 * MS))
    assert binds(p.done(first))


def test_an_overrun_raises_what_remains() -> None:
    p = Platform()
    p.know("a", turn=100 * MS)
    p.holds("s0", "a")
    p.turn(p.bound("1", "a", late=True))
    g = p.core.state.by_id["s0"]
    assert g.remaining(p.now + 60 * MS) == 40 * MS
    assert g.remaining(p.now + 160 * MS) == 60 * MS


def test_a_stalled_turn_sends_its_followers_elsewhere_in_their_old_order() -> None:
    p = Platform(slices=2)
    p.know("a", turn=10 * MS, load=5 * S)
    p.know("other", turn=1 * MS)
    p.holds("s0", "a")
    p.holds("s1")
    stuck = p.bound("stuck", "a", late=True)
    p.turn(stuck)
    follower = p.bound("follower", "a", late=True)
    assert follower.local
    assert follower.slice == "s0"
    p.report("s0", bindings=(stuck.binding_id, follower.binding_id), turn=stuck.binding_id)
    waited_since = p.now
    said = p.wait(1100 * MS)
    assert [(i.binding_id, i.code) for i in said if isinstance(i, Unbind | TellOwner)] == [
        (follower.binding_id, "binding_gone")
    ] * 2
    again = p.bound("follower", "a", owner="broker", late=True)
    assert again.slice == "s1"
    assert again.request.arrived_ns == waited_since
    assert not p.core.state.by_id["s0"].open
    p.done(stuck)
    assert p.core.state.by_id["s0"].open


def test_a_worker_that_still_loads_is_held() -> None:
    p = Platform(slices=2)
    p.know("a", turn=5 * MS, load=100 * MS)
    first = p.bound("1", "a", late=True)
    assert not first.hit
    p.wait(50 * MS)
    second = p.bound("2", "a", late=True)
    assert second.hit
    assert second.local
    assert second.slice == first.slice


def test_a_miss_while_another_slice_holds_the_worker_is_a_false_miss() -> None:
    p = Platform(slices=2)
    p.know("a", turn=500 * MS, load=1 * MS)
    p.holds("s0", "a")
    p.turn(p.bound("1", "a", late=True))
    second = p.bound("2", "a", late=True)
    assert (second.slice, second.hit, second.false_miss) == ("s1", False, True)


def test_foresight_hides_the_victims_until_a_report_tells_the_truth() -> None:
    p = Platform(memory=25 * MB)
    for worker in "abc":
        p.know(worker)
    p.holds("s0", "a", "b")
    said = p.place("1", "c", late=True)
    keep, bind = said
    assert isinstance(keep, Keep)
    assert isinstance(bind, Bind)
    assert list(p.core.state.by_id["s0"].held) == [key("b"), key("c")]
    p.report("s0", bindings=(bind.binding_id,))  # sent before the load began
    assert list(p.core.state.by_id["s0"].held) == [key("b"), key("c")]
    p.holds("s0", "a", "c")  # the cache manager chose otherwise
    assert list(p.core.state.by_id["s0"].held) == [key("a"), key("c")]


def test_keep_names_what_waits_for_each_worker() -> None:
    p = Platform(memory=25 * MB, policy="lb")
    for worker in "abc":
        p.know(worker, turn=1 * S)
    p.holds("s0", "a", "b")
    running = p.bound("1", "a", late=True)
    p.turn(running)
    p.place("2", "c", late=True)
    p.place("3", "b", late=True)
    (keep,) = [i for i in p.done(running) if isinstance(i, Keep)]
    assert {worker: demand.queued for worker, demand in keep.demand.items()} == {key("a"): 0, key("b"): 1}


def test_keep_says_how_often_only_of_workers_that_are_called_often() -> None:
    p = Platform(memory=25 * MB)
    for worker in "abc":
        p.know(worker, turn=5 * MS)
    p.holds("s0", "a", "b")

    def demand_when_c_comes() -> dict[str, float]:
        said = p.place("c", "c", late=True)
        (keep,) = [i for i in said if isinstance(i, Keep)]
        p.do(ev.Cancelled(p.now, "gateway", "c"))
        p.holds("s0", "a", "b")
        return {worker: demand.calls_per_s for worker, demand in keep.demand.items()}

    def call(worker: str, times: int) -> None:
        for number in range(times):
            bind = p.bound(f"{worker}{number}", worker, late=True)
            p.turn(bind)
            p.done(bind)
            p.do(ev.Released(p.now, "gateway", bind.binding_id))
            p.wait(100 * MS)

    call("a", 40)
    call("b", 5)
    assert demand_when_c_comes() == {key("a"): pytest.approx(40 / 30, rel=0.15), key("b"): 0}
    for _ in range(2):  # more than three of its intervals: it is not expected to be called so often any more
        p.wait(4 * S)
        p.holds("s0", "a", "b")
    assert demand_when_c_comes() == {key("a"): 0, key("b"): 0}


def test_a_deadline_fires_although_the_slice_is_busy_for_longer() -> None:
    p = Platform()
    p.know("a", turn=60 * S)
    p.holds("s0", "a")
    p.turn(p.bound("1", "a", late=True))
    p.place("2", "a", deadline_ns=300 * MS)
    assert refusals(p.wait(299 * MS)) == []
    assert refusals(p.wait(1 * MS)) == [("2", "deadline_in_queue")]
    assert p.core.waiting == 0


def test_the_queue_holds_exactly_its_limit() -> None:
    p = Platform(tuning=replace(LIVE, queue_limit=5))
    p.know("a", turn=60 * S)
    p.holds("s0", "a")
    p.turn(p.bound("running", "a", late=True))
    said = [i for n in range(9) for i in p.place(str(n), "a", late=True)]
    assert refusals(said) == [(str(n), "queue_full") for n in (5, 6, 7, 8)]
    assert all(i.retry_after_s >= 1 for i in said if isinstance(i, Refuse))
    assert p.core.waiting == 5


def test_the_same_place_twice_changes_nothing() -> None:
    p = Platform()
    p.know("a", turn=1 * S)
    p.holds("s0", "a")
    first = p.bound("1", "a")
    again = p.bound("1", "a")
    assert again.again
    assert again.binding_id == first.binding_id
    p.place("2", "a")
    p.place("2", "a")
    assert p.core.waiting == 1
    assert len(p.core.ledger) == 1


def test_a_cancelled_call_never_starts_and_the_next_waits_for_the_running_one_only() -> None:
    p = Platform()
    p.know("a", turn=1500 * MS)
    p.holds("s0", "a")
    a = p.bound("a", "a", late=True)
    p.turn(a)
    p.place("b", "a", late=True)
    p.place("c", "a", late=True)
    p.do(ev.Cancelled(p.now, "gateway", "b"))
    assert [b.request.call_id for b in binds(p.done(a))] == ["c"]


def test_cancelling_a_bound_call_gives_its_slice_back() -> None:
    p = Platform()
    p.know("a", turn=10 * S, gap=0)
    p.holds("s0", "a")
    p.bound("1", "a")
    p.place("2", "a")
    said = p.do(ev.Cancelled(p.now, "gateway", "1"))
    assert [type(i) for i in said] == [Unbind, Bind]


def test_a_slice_on_which_it_failed_is_avoided_while_another_would_do() -> None:
    p = Platform(slices=2)
    p.know("a")
    p.holds("s0", "a")
    assert p.bound("1", "a", avoid=("s0",)).slice == "s1"
    alone = Platform()
    alone.know("a")
    assert alone.bound("1", "a", avoid=("s0",)).slice == "s0"


def test_deleting_a_function_refuses_its_queued_calls() -> None:
    p = Platform()
    p.know("a", turn=10 * S)
    p.holds("s0", "a")
    p.turn(p.bound("1", "a", late=True))
    p.place("2", "a", late=True)
    p.place("3", "b", late=True)
    assert refusals(p.do(ev.FunctionDeleted(p.now, "a.ns"))) == [("2", "not_found")]
    assert p.core.waiting == 1


def test_what_fits_no_slice_is_refused_with_both_sizes() -> None:
    p = Platform(memory=100 * MB)
    p.know("big", held=150 * MB)
    (refused,) = p.place("1", "big")
    assert isinstance(refused, Refuse)
    assert refused.code == "model_too_large"
    assert "150,000,000" in refused.message
    assert "100,000,000" in refused.message


def test_what_turns_out_too_large_is_refused_while_it_waits() -> None:
    p = Platform(memory=100 * MB)
    p.know("a", turn=10 * S)
    p.know("grows", held=10 * MB)
    p.turn(p.bound("1", "a", late=True))
    p.place("2", "grows", late=True)
    said = p.do(ev.Loaded(p.now, "s0", key("grows"), 1 * S, 200 * MB))
    assert refusals(said) == [("2", "model_too_large")]


def test_a_request_whose_only_slice_is_lost_waits_and_blocks_nobody() -> None:
    p = Platform(slices=2, policy="lb")
    p.know("a")
    p.know("big", held=150 * MB)
    large = replace(p.specs[0], id="large", node="m", memory_bytes=200 * MB)
    p.do(ev.NodeExpected(p.now, (large,)))
    assert p.place("1", "big") == []
    assert p.bound("2", "a").slice == "s0"
    p.do(ev.NodeJoined(p.now, "m", (large,)))
    said = p.do(ev.SliceReported(p.now, replace(p.reports["s0"], spec=large, sequence=1)))
    assert [b.slice for b in binds(said)] == ["large"]


def test_a_reserved_slice_serves_its_function_only() -> None:
    p = Platform()
    p.know("a")
    p.know("b")
    p.do(ev.PoolsSet(p.now, {"s0": "reserved:a.ns"}))
    assert refusals(p.place("1", "b")) == [("1", "no_slice")]
    assert p.bound("2", "a").slice == "s0"


def test_switching_the_policy_keeps_the_queue() -> None:
    p = Platform()
    p.know("a", turn=10 * S)
    p.holds("s0", "a")
    first = p.bound("1", "a", late=True)
    p.turn(first)
    for n in range(2, 6):
        p.place(str(n), "a", late=True)
    p.do(ev.PolicySet(p.now, make_policy({"name": "lb"})))
    assert p.core.waiting == 4
    order = []
    running = first
    while p.core.waiting:
        (running,) = binds(p.done(running))
        p.turn(running)
        order.append(running.request.call_id)
    assert order == ["2", "3", "4", "5"]


def test_every_placement_keeps_its_reason_and_the_record_is_bounded() -> None:
    p = Platform(tuning=replace(LIVE, recent=10))
    p.know("a")
    p.holds("s0", "a")
    for n in range(25):
        b = p.bound(str(n), "a")
        p.do(ev.Released(p.now, "gateway", b.binding_id))
    assert [r.call_id for r in p.core.records.recent] == [str(n) for n in range(15, 25)]
    assert all(r.reason for r in p.core.records.recent)


def test_a_second_copy_stays_only_if_its_calls_would_fill_the_first() -> None:
    p = Platform(slices=2, memory=25 * MB)
    for worker in "abc":
        p.know(worker, turn=40 * MS)
    p.holds("s0", "a", "b")
    p.holds("s1", "a", "b")

    def demand_for_a() -> float:
        said = p.place("c", "c", late=True)
        (keep,) = [i for i in said if isinstance(i, Keep)]
        p.do(ev.Cancelled(p.now, "gateway", "c"))
        p.holds(keep.slice, "a", "b")
        return keep.demand[key("a")].calls_per_s

    def call(times: int, pause: int) -> None:
        for number in range(times):
            bind = p.bound(f"a{number}", "a", late=True)
            p.turn(bind)
            p.wait(40 * MS)
            p.done(bind)
            p.do(ev.Released(p.now, "gateway", bind.binding_id))
            p.wait(pause - 40 * MS)
            p.holds("s0", "a", "b")
            p.holds("s1", "a", "b")

    call(100, 200 * MS)  # a fifth of one slice's time
    assert demand_for_a() == 0
    call(1500, 50 * MS)  # four fifths
    assert demand_for_a() == pytest.approx(20, rel=0.2)


@pytest.mark.parametrize("began", [True, False])
@pytest.mark.parametrize("by", ["owner", "slice"])
def test_a_turn_counts_though_its_binding_ended_before_the_slice_said_so(began: bool, by: str) -> None:
    p = Platform()
    p.know("a", turn=5 * MS)
    p.holds("s0", "a")
    bind = p.bound("1", "a", late=True)
    if began:
        p.turn(bind)
    over = ev.Released(p.now, "gateway", bind.binding_id), ev.BindingEnded(p.now, bind.binding_id)
    p.do(over[by == "slice"])
    if not began:
        p.turn(bind)
    for _ in range(2):
        p.done(bind)
    assert p.core.records.turns == 1
    assert (p.core.records.turned_hits, p.core.records.turned_misses) == (1, 0)


def test_a_worker_that_came_and_went_between_two_reports_is_not_expected_any_more() -> None:
    p = Platform(memory=25 * MB)
    for worker in "abc":
        p.know(worker, turn=5 * MS)
    p.holds("s0", "a", "b")
    first = p.bound("1", "c", late=True)
    p.do(ev.Loaded(p.now, "s0", key("c"), 20 * MS, 10 * MB))
    p.turn(first)
    p.done(first)
    p.do(ev.Released(p.now, "gateway", first.binding_id))
    p.holds("s0", "a", "b")  # `c` has had to go already
    assert list(p.core.state.by_id["s0"].held) == [key("a"), key("b")]
