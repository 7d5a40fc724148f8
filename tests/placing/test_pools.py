"""Slices of one function's own: who is bound where, draining, what is refused, which slices an annotation gets."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from proto.types.errors import SlicewiseError
from proto.types.placing import Place
from proto.types.pools import Reservation
from scheduler.core import events as ev
from scheduler.core.instructions import Bind, Keep
from scheduler.service.replaying import replay
from tests.placing.live import MB, MS, Platform, S, binds, refusals
from tests.placing.test_replaying import Recorded


def platform(slices: int = 2, policy: str = "lalb", *functions: str) -> Platform:
    p = Platform(slices=slices, policy=policy)
    for name in functions or ("a", "b"):
        p.know(name)
        p.do(ev.FunctionReserves(p.now, f"{name}.ns", ""))
    return p


def reserve(p: Platform, name: str, wish: str) -> None:
    p.core.pools.check_reserve(f"{name}.ns", Reservation.parse(wish))
    p.do(ev.FunctionReserves(p.now, f"{name}.ns", wish))


def put(p: Platform, **pools: str) -> None:
    p.core.pools.check_set(pools)
    p.do(ev.PoolsSet(p.now, pools))


def pools(p: Platform) -> str:
    """One word a slice: the function, - for shared, > before what it drains for."""
    names = {"shared": "-"}
    shown = [
        names.get(g.pool, g.pool.removeprefix("reserved:").removesuffix(".ns"))
        + (
            ">" + names.get(g.moving_to, g.moving_to.removeprefix("reserved:").removesuffix(".ns"))
            if g.moving_to
            else ""
        )
        for g in p.core.state.slices
    ]
    return " ".join(shown)


def served(p: Platform, *calls: str) -> list[str]:
    """The slices of these calls, one after the other, each to its end."""
    where = []
    for number, worker in enumerate(calls):
        bind = p.bound(f"{worker}{number}{p.now}", worker, late=True)
        p.turn(bind)
        p.now += MS
        p.done(bind)
        p.do(ev.Released(p.now, "gateway", bind.binding_id))
        where.append(bind.slice)
    return where


@pytest.mark.parametrize("policy", ["lb", "lalb", "elsa"])
def test_a_reserved_slice_has_all_calls_of_its_function_and_no_other(policy: str) -> None:
    p = platform(2, policy)
    put(p, s1="reserved:a.ns")
    assert pools(p) == "- a"
    assert served(p, "a", "b", "a", "b", "b") == ["s1", "s0", "s1", "s0", "s0"]
    put(p, s1="shared")
    assert pools(p) == "- -"
    p.turn(p.bound("keeps", "b", late=True))
    assert {g.id for g in p.core.state.slices if p.core.state.serves(g, "b.ns@1")} == {"s0", "s1"}


def test_a_slice_changes_its_pool_when_the_last_binding_of_others_has_ended() -> None:
    p = platform()
    p.know("b", turn=10 * S)
    p.holds("s1", "b")
    first = p.bound("1", "b", late=True)
    assert first.slice == "s1"
    p.turn(first)
    put(p, s1="reserved:a.ns")
    assert pools(p) == "- ->a"
    assert p.bound("2", "b", late=True).slice == "s0"
    p.done(first)
    assert pools(p) == "- ->a"  # the turn is over, the binding is not
    p.do(ev.Released(p.now, "gateway", first.binding_id))
    assert pools(p) == "- a"
    assert "b.ns@1" in p.core.state.by_id["s1"].held  # evicted when room is needed, not before


def test_bindings_of_the_function_itself_need_no_draining() -> None:
    p = platform()
    p.holds("s1", "a")
    p.turn(p.bound("1", "a", late=True))
    put(p, s1="reserved:a.ns")
    assert pools(p) == "- a"


def test_a_change_that_is_taken_back_while_it_drains_leaves_all_as_it_was() -> None:
    p = platform()
    p.holds("s1", "b")
    p.turn(p.bound("1", "b", late=True))
    put(p, s1="reserved:a.ns")
    put(p, s1="shared")
    assert pools(p) == "- -"
    assert p.core.pools.document()["by_hand"] == {}


@pytest.mark.parametrize("policy", ["lb", "lalb"])
def test_who_waits_for_a_pool_does_not_hold_up_the_others(policy: str) -> None:
    p = platform(2, policy)
    p.know("a", turn=10 * S)
    put(p, s0="reserved:a.ns")
    p.holds("s0", "a")
    first = p.bound("1", "a", late=True)
    p.turn(first)
    for call in ("2", "3"):
        assert not binds(p.place(call, "a", late=True))
    assert p.bound("4", "b", late=True).slice == "s1"
    said = p.done(first)
    assert [(b.request.call_id, b.slice) for b in binds(said)] == [("2", "s0")]


@pytest.mark.parametrize(
    ("wish", "says"),
    [
        ({"s9": "shared"}, "s9: there is no such slice; there are s0, s1"),
        ({"s0": "mine"}, "s0: 'mine' is neither"),
        ({"s0": "parity:a.ns"}, "s0: 'parity:a.ns' is neither"),
        ({"s0": "reserved:c.ns"}, r"s0: c\.ns is no GPU function"),
        ({"s0": "reserved:a.ns", "s1": "reserved:a.ns"}, r"No slice would be shared, and b\.ns needs one"),
    ],
)
def test_what_cannot_be_is_refused_and_changes_nothing(wish: dict[str, str], says: str) -> None:
    p = platform()
    before = p.core.pools.document()
    with pytest.raises(SlicewiseError, match=says) as refused:
        put(p, **wish)
    assert refused.value.status == 400
    assert (p.core.pools.document(), pools(p)) == (before, "- -")


def test_all_slices_may_be_reserved_when_every_function_has_one() -> None:
    p = platform()
    put(p, s0="reserved:a.ns", s1="reserved:b.ns")
    assert served(p, "b", "a") == ["s1", "s0"]
    p.know("late")
    p.do(ev.FunctionReserves(p.now, "late.ns", ""))
    assert refusals(p.place("1", "late")) == [("1", "no_slice")]
    assert pools(p) == "a b"  # who came first keeps it


def test_an_annotation_takes_the_slices_that_hold_the_function_then_idle_ones_then_the_first() -> None:
    p = platform(5)
    p.holds("s3", "a")
    p.turn(p.bound("1", "b", late=True))  # on s0
    reserve(p, "a", "2")
    assert pools(p) == "- a - a -"
    reserve(p, "a", "1")
    assert pools(p) == "- - - a -"
    reserve(p, "a", "4")
    assert pools(p) == "- a a a a"
    p.do(ev.FunctionDeleted(p.now, "a.ns"))
    assert pools(p) == "- - - - -"


def test_a_reservation_that_cannot_be_met_is_refused_with_what_is_there() -> None:
    p = platform()
    for wish, says in (
        ("2", r"2 cannot be reserved: 1 of 2 would be found; .* 1x1g \(one stays shared"),
        ("1x3g", "1x3g cannot be reserved: 0 of 1"),
    ):
        with pytest.raises(SlicewiseError, match=says):
            reserve(p, "a", wish)
    assert pools(p) == "- -"
    alone = platform(2, "lalb", "a")
    reserve(alone, "a", "2x1g")
    assert pools(alone) == "a a"


def test_an_annotation_stands_against_people_and_people_against_it() -> None:
    p = platform(3)
    reserve(p, "a", "1")
    with pytest.raises(SlicewiseError, match=r"a\.ns reserves 1 slice by its annotation"):
        put(p, s0="shared")
    put(p, s0="reserved:b.ns")  # the reservation is met by another slice
    assert pools(p) == "b a -"
    with pytest.raises(SlicewiseError, match="2 cannot be reserved"):
        reserve(p, "c", "2")


def test_reserved_slices_are_taken_up_after_a_restart_and_replaced_when_their_node_is_gone() -> None:
    p = platform(3)
    p.holds("s2", "a")
    reserve(p, "a", "1")
    put(p, s0="reserved:b.ns")
    again = Platform(slices=3)
    again.do(ev.PoolsRestored(again.now, **p.core.pools.document()))
    assert pools(again) == pools(p) == "b - a"
    again.specs = again.specs[:2]
    again.do(ev.NodeJoined(again.now, "n", again.specs))  # came back without s2
    assert pools(again) == "b a"


def test_while_its_own_slices_are_away_a_function_is_served_by_the_others() -> None:
    p = platform()
    put(p, s1="reserved:a.ns")
    p.do(ev.NodeLost(p.now, "n"))
    assert p.place("1", "a", late=True) == []
    p.do(ev.NodeJoined(p.now, "n", p.specs))
    said = p.report("s0")  # only one slice is heard of again
    assert [b.slice for b in binds(said)] == ["s0"]
    p.report("s1")
    assert p.bound("2", "a", late=True).slice == "s1"
    assert pools(p) == "- a"


def test_workers_that_the_pool_does_not_serve_go_first_when_room_is_needed() -> None:
    p = platform()
    p.profiles.learn_load("a.ns@2", 100 * MS, 60 * MB)
    p.holds("s1", "a", "b", held=40 * MB)  # b was used last
    put(p, s1="reserved:a.ns")
    p.turn(p.bound("1", "a", late=True))
    (keep, bind) = p.do(ev.Placed(p.now, "gateway", Place("2", "a.ns@2", late=True)))
    assert isinstance(keep, Keep)
    assert isinstance(bind, Bind)
    assert keep.demand["b.ns@1"].rank < keep.demand["a.ns@1"].rank
    assert list(p.core.state.by_id["s1"].held) == ["a.ns@1", "a.ns@2"]


def test_what_a_wish_must_look_like() -> None:
    assert Reservation.parse("2x3g") == Reservation(2, 3)
    assert str(Reservation.parse(" 4 ")) == "4"
    for text in ("", "0", "-1", "2x", "x3g", "2x0g", "2 x 3g", "all", "1e3", "99999"):
        with pytest.raises(ValueError, match="number of slices"):
            Reservation.parse(text)


def test_what_was_recorded_of_pools_replays_to_the_same_answers(tmp_path: Path) -> None:
    p = Recorded(tmp_path / "events")
    for name in "ab":
        p.do(ev.FunctionReserves(p.now, f"{name}.ns", ""))
    p.do(ev.FunctionReserves(p.now, "b.ns", "1x1g"))
    put(p, s1="reserved:a.ns")
    p.do(ev.FunctionReserves(p.now, "cpu.ns", None))
    served(p, "a", "b", "a")
    p.do(ev.PoolsRestored(p.now, **p.core.pools.document()))
    put(p, s1="shared")
    served(p, "a", "b", "a")
    assert p.recorder is not None
    p.recorder.close()
    with (tmp_path / "events").open() as file:
        done = replay(file)
    assert done.difference is None
    assert done.instructions >= 6


def test_a_slice_that_is_too_small_for_the_function_is_not_reserved_for_it() -> None:
    p = platform(3)
    small = replace(p.specs[0], memory_bytes=20 * MB)
    p.do(ev.NodeJoined(p.now, "n", (small, *p.specs[1:])))
    p.report("s0")
    p.do(ev.FunctionReserves(p.now, "a.ns", "1", "a.ns@1"))
    assert pools(p) == "a - -"
    p.do(ev.Loaded(p.now, "s0", "a.ns@1", 1 * S, 30 * MB))  # it turns out to be larger
    assert pools(p) == "- a -"
    p.do(ev.FunctionReserves(p.now, "a.ns", "", "a.ns@1"))
    with pytest.raises(SlicewiseError, match=r"s0: a\.ns takes 30,000,000 bytes .* has 20,000,000"):
        put(p, s0="reserved:a.ns")
    with pytest.raises(SlicewiseError, match="3 cannot be reserved: 2 of 3 would be found"):
        reserve(p, "a", "3")
    assert pools(p) == "- - -"
