"""Who runs when: exact times, in virtual time."""

import pytest

from gpu_manager.core import events as ev
from gpu_manager.core import instructions as ins
from gpu_manager.core.fence import Fence
from proto.types.errors import SlicewiseError
from tests.turns.slice_world import MS, World

ONCE = ev.Usual(gap_ns=5 * MS, between_ns=0, calls=1.0)


def warm(world: World, *workers: str) -> None:
    for worker in workers:
        world.prepare(f"warm-{worker}", worker, f"m-{worker}", usual=ONCE)
        world.run(500)
        world.end(f"warm-{worker}")
    world.log.clear()


def test_a_miss_then_a_hit() -> None:
    world = World()
    world.prepare("b1", "a", "m")
    first = world.call("b1", "m")
    world.run(150)
    world.end("b1")
    world.prepare("b2", "a", "m")
    second = world.call("b2", "m")
    world.run(50)
    assert not world.answers[first].hit
    assert world.answers[first].load_ns == 100 * MS
    assert world.answers[first].queue_ns == 1 * MS  # the look into the store
    assert world.answers[second].hit
    assert world.answers[second].queue_ns == 0
    assert world.answers[second].infer_ns == 10 * MS


def test_when_a_turn_ends_the_next_call_starts_in_the_same_step() -> None:
    world = World()
    warm(world, "a", "b")
    for number in range(4):
        world.prepare(f"x{number}", "ab"[number % 2], "m-" + "ab"[number % 2], usual=ONCE)
        world.call(f"x{number}", "m-" + "ab"[number % 2])
    start = world.now
    world.run()
    runs = [when - start for when, order in world.log if isinstance(order, ins.Run)]
    assert runs == [0, 10 * MS, 20 * MS, 30 * MS]
    assert [began.gap_ns for began in world.kinds(ins.TurnBegan)][1:] == [0, 0, 0]
    assert [began.binding for began in world.kinds(ins.TurnBegan)] == ["x0", "x1", "x2", "x3"]


def test_a_turn_lingers_for_the_next_call_of_its_invocation() -> None:
    world = World()
    warm(world, "a", "b")
    many = ev.Usual(between_ns=2 * MS, calls=10.0)
    world.prepare("chatty", "a", "m-a", usual=many)
    world.prepare("other", "b", "m-b", usual=ONCE)
    world.call("chatty", "m-a")
    other = world.call("other", "m-b")
    world.run(13)
    again = world.call("chatty", "m-a")
    world.run()
    assert list(world.answers) == [1, again, other]
    assert world.answers[other].queue_ns == (10 + 3 + 10 + 4) * MS  # until twice the usual gap has passed


def test_who_has_made_the_usual_calls_does_not_linger() -> None:
    world = World()
    warm(world, "a", "b")
    world.prepare("two", "a", "m-a", usual=ev.Usual(between_ns=5 * MS, calls=2.0))
    world.prepare("other", "b", "m-b", usual=ONCE)
    world.call("two", "m-a")
    world.call("two", "m-a")
    other = world.call("other", "m-b")
    world.run()
    assert world.answers[other].queue_ns == 20 * MS
    assert [turn.calls for turn in world.kinds(ins.TurnOver)] == [2, 1]


def test_the_end_of_an_invocation_gives_the_turn_back() -> None:
    world = World()
    warm(world, "a", "b")
    world.prepare("b1", "a", "m-a", usual=ev.Usual(between_ns=20 * MS, calls=9.0))
    world.call("b1", "m-a")
    world.prepare("b2", "b", "m-b")
    other = world.call("b2", "m-b")
    world.run(12)
    assert other not in world.answers
    world.end("b1")
    world.run(10)
    assert world.answers[other].queue_ns == 12 * MS


def test_each_deadline_says_where_the_time_went() -> None:
    world = World()
    warm(world, "a")
    world.frozen.add("a")
    world.prepare("b1", "a", "m-a")
    world.prepare("b2", "a", "m-a")
    world.prepare("b3", "c", "m-c")
    stuck = world.call("b1", "m-a", deadline_ms=300)
    queued = world.call("b2", "m-a", deadline_ms=50)
    loading = world.call("b3", "m-c", deadline_ms=60)
    begun = world.now
    world.run(60)
    assert world.codes() == {queued: "deadline_in_queue", loading: "deadline_in_load"}
    world.run(240)
    assert world.codes()[stuck] == "deadline_in_call"
    assert world.now - begun == 300 * MS
    assert [kill.reason for kill in world.kinds(ins.Kill)] == ["its call passed its deadline"]
    world.frozen.clear()
    world.run(3)
    after = world.call("b2", "m-a")
    world.run()
    assert world.codes()[after] == "ok"  # the slice is free again, with a new worker


def test_a_frozen_worker_delays_its_running_call_only() -> None:
    world = World()
    warm(world, "a", "b")
    world.frozen.add("a")
    world.prepare("b1", "a", "m-a")
    world.prepare("b2", "b", "m-b")
    world.call("b1", "m-a", deadline_ms=1000)
    other = world.call("b2", "m-b", deadline_ms=5000)
    world.run()
    assert world.codes() == {1: "deadline_in_call", other: "ok"}


def test_a_cancelled_call_never_starts() -> None:
    world = World()
    warm(world, "a")
    for number in range(3):
        world.prepare(f"x{number}", "a", "m-a", usual=ONCE)
    first, second, third = (world.call(f"x{number}", "m-a") for number in range(3))
    world.tell(ev.CallCancelled(second))
    world.run()
    assert [run.call for run in world.kinds(ins.Run)] == [first, third]
    assert world.answers[third].queue_ns == 10 * MS


def test_the_queue_holds_exactly_its_limit() -> None:
    world = World(max_waiting=3)
    warm(world, "a")
    world.prepare("b", "a", "m-a")
    for _ in range(6):
        world.call("b", "m-a")
    assert [a.failure.code for a in world.answers.values() if a.failure] == ["queue_full"] * 2
    world.run()
    assert sorted(world.codes().values()) == ["ok"] * 4 + ["queue_full"] * 2


def test_a_worker_that_dies_fails_its_running_call_only() -> None:
    world = World()
    warm(world, "a")
    world.prepare("b1", "a", "m-a")
    world.prepare("b2", "a", "m-a")
    first, second = world.call("b1", "m-a"), world.call("b2", "m-a")
    world.run(5)
    world.running.clear()
    world.die("a")
    world.run()
    assert world.codes() == {first: "worker_died", second: "ok"}
    assert world.answers[first].repeatable


def test_a_death_with_state_is_not_repeatable_and_is_remembered() -> None:
    world = World(stateful=frozenset({"m-a"}))
    warm(world, "a")
    world.prepare("b1", "a", "m-a")
    world.call("b1", "m-a")
    world.run(11)
    second = world.call("b1", "m-a")
    world.running.clear()
    world.die("a")
    third = world.call("b1", "m-a")
    assert [world.codes()[n] for n in (second, third)] == ["worker_died", "worker_died"]
    assert not world.answers[second].repeatable
    assert not world.answers[third].repeatable
    world.end("b1")
    world.prepare("b2", "a", "m-a")
    fresh = world.call("b2", "m-a")
    world.run()
    assert world.codes()[fresh] == "ok"


def test_changed_state_is_exclusive_and_restored_before_the_next_binding() -> None:
    world = World(stateful=frozenset({"m-a"}))
    warm(world, "a")
    world.prepare("b1", "a", "m-a")
    world.prepare("b2", "a", "m-a")
    world.call("b1", "m-a")
    other = world.call("b2", "m-a")
    world.run(200)
    assert other not in world.answers
    assert world.core.report(1).workers[0].exclusive_to == "b1"
    mine = world.call("b1", "m-a")
    world.run(20)
    assert world.codes()[mine] == "ok"
    world.end("b1")
    world.run(30)
    assert world.codes()[other] == "ok"
    order = [type(o).__name__ for _, o in world.log if isinstance(o, ins.Run | ins.Reset)]
    assert order == ["Run", "Run", "Reset", "Run"]


def test_a_late_call_of_an_ended_binding_is_refused_by_name() -> None:
    world = World()
    world.prepare("b1", "a", "m")
    world.end("b1")
    late = world.call("b1", "m")
    assert world.codes()[late] == "binding_gone"
    assert world.answers[late].repeatable


def test_a_binding_that_nobody_ends_expires() -> None:
    world = World()
    world.prepare("b1", "a", "m", expires_ms=1000)
    world.run()
    assert not any(world.core.counts().values())


def test_lower_epochs_are_fenced_off() -> None:
    fence = Fence()
    fence.admit(3)
    fence.admit(3)
    with pytest.raises(SlicewiseError) as refused:
        fence.admit(2)
    assert refused.value.code == "stale_epoch"
