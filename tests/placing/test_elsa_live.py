"""ELSA on a running platform: bound at arrival with learned times; a full or closed slice takes nobody."""

from __future__ import annotations

from dataclasses import replace

from proto.types.slices import SliceSpec, SliceState, SliceStatus
from scheduler.core import events as ev
from scheduler.core.policies.registry import make_policy
from scheduler.core.tuning import LIVE, Tuning
from tests.placing.live import MB, MS, Platform, S, binds, key


def platform(*gpcs: int, tuning: Tuning = LIVE, **factors: float) -> Platform:
    p = Platform(0, tuning=tuning)
    p.specs = tuple(SliceSpec(f"s{i}", "n", i, k, 100 * MB, "mig") for i, k in enumerate(gpcs))
    p.reports = {spec.id: SliceState(spec, 0, "shared", SliceStatus.IDLE, 100 * MB) for spec in p.specs}
    p.join()
    p.do(ev.PolicySet(p.now, make_policy({"name": "elsa", **factors})))
    p.know("a", load=100 * MS)
    for size, turn in ((1, 40 * MS), (7, 10 * MS)):
        p.profiles.learn_turn(key("a"), size, 1, turn, 1, turn)
    return p


def everywhere(p: Platform) -> None:
    for slice_id in p.reports:
        p.holds(slice_id, "a")


def test_the_papers_order_with_learned_times() -> None:
    p = platform(1, 1, 7)
    everywhere(p)
    chosen = [p.bound(str(n), "a", batch=1, sla_ns=50 * MS, late=True).slice for n in range(7)]
    assert chosen == ["s0", "s1", "s2", "s2", "s2", "s2", "s2"]


def test_a_call_waits_at_its_slice_not_in_line() -> None:
    p = platform(1)
    everywhere(p)
    first, second = p.bound("1", "a", late=True), p.bound("2", "a", late=True)
    assert (first.local, second.local) == (False, True)
    assert p.core.waiting == 0


def test_a_load_counts_against_the_slack_and_is_under_way_for_the_next() -> None:
    p = platform(1, 7)
    p.holds("s0")
    p.holds("s1", "a")
    assert p.bound("1", "a", batch=1, sla_ns=130 * MS, late=True).slice == "s1"  # 100 + 40 on s0
    assert p.bound("2", "a", batch=1, sla_ns=150 * MS, late=True).slice == "s0"
    p.wait(60 * MS)
    # 40 of the load are left, then the turn that waits for it, then its own: 120.
    assert p.bound("3", "a", batch=1, sla_ns=121 * MS, late=True).slice == "s0"


def test_a_full_slice_takes_nobody_and_the_queue_has_its_limit() -> None:
    p = platform(1, tuning=replace(LIVE, local_limit=2, queue_limit=1))
    everywhere(p)
    first = p.bound("1", "a", late=True)
    p.turn(first)
    p.bound("2", "a", late=True)
    p.bound("3", "a", late=True)
    assert not p.place("4", "a", late=True)
    assert [i.code for i in p.place("5", "a", late=True)] == ["queue_full"]
    p.done(first)
    assert not binds(p.do(ev.BindingEnded(p.now, first.binding_id)))
    (second,) = [b for b in p.core.ledger.bound.values() if b.request.call_id == "2"]
    said = p.do(ev.TurnStarted(p.now, second.id, True))
    assert [b.request.call_id for b in binds(said)] == ["4"]


def test_the_time_that_a_call_has_waited_before_counts_against_its_sla() -> None:
    p = platform(1, 7)
    everywhere(p)
    assert p.bound("1", "a", batch=1, sla_ns=50 * MS, late=True).slice == "s0"
    assert p.bound("2", "a", batch=1, sla_ns=95 * MS, waited_ns=10 * MS, late=True).slice == "s0"
    assert p.bound("3", "a", batch=1, sla_ns=125 * MS, waited_ns=10 * MS, late=True).slice == "s1"


def test_a_stalled_slice_is_passed_by() -> None:
    p = platform(1, 7)
    everywhere(p)
    stuck = p.bound("1", "a", late=True)
    p.turn(stuck)
    p.wait(2 * S)
    assert not p.core.state.by_id[stuck.slice].open
    assert p.bound("2", "a", batch=1, sla_ns=500 * MS, late=True).slice == "s1"
