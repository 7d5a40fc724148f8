"""What a call may touch beside its model: lent for the first, charged from then on, and never above the budget."""

from gpu_manager.core import events as ev
from gpu_manager.core import instructions as ins
from tests.admitting.test_admission import evicted, serve
from tests.turns.slice_world import World
from tests.turns.test_turns import ONCE


def limits(world: World, worker: str) -> list[int]:
    return [order.limit_bytes for order in world.kinds(ins.Limit) if order.worker == worker]


def held(world: World) -> dict[str, int]:
    return {worker.key: worker.held_bytes for worker in world.core.report(0).workers}


def test_the_first_call_is_lent_what_is_free_and_what_it_took_is_charged_from_then_on() -> None:
    world = World(budget=100, sizes={"a": 20}, call_bytes={"a": 30})
    serve(world, "x", "a", "a")
    assert limits(world, "a") == [100, 52]  # two calls differ by a little
    assert held(world) == {"a": 52}
    serve(world, "y", "a", "a")
    assert limits(world, "a") == [100, 52, 52 + 52 // 4 + 100 // 16, 52]


def test_what_calls_took_is_reserved_when_the_model_is_loaded_again() -> None:
    world = World(budget=100, sizes={"a": 20, "b": 60}, call_bytes={"a": 30})
    serve(world, "x", "a", "a")
    serve(world, "y", "b", "b")
    assert evicted(world) == ["a"]
    serve(world, "z", "a", "a")
    assert evicted(world) == ["a", "b"]  # beside 60 bytes there is room for the model, not for its calls
    assert held(world) == {"a": 52}


def test_a_load_beside_the_first_call_waits_for_what_it_was_lent() -> None:
    world = World(budget=100, sizes={"a": 20, "b": 30})
    world.call_ms = 1000
    world.prepare("x", "a", "a", usual=ONCE)
    world.call("x", "a")
    world.run(150)
    world.prepare("y", "b", "b", usual=ONCE)
    world.run(500)
    assert set(world.alive) == {"a"}
    world.run(700)
    assert set(world.alive) == {"a", "b"}
    assert evicted(world) == []


def test_a_larger_call_runs_again_in_the_same_worker_if_there_is_room() -> None:
    world = World(budget=100, sizes={"a": 20}, call_bytes={"a": 5})
    serve(world, "x", "a", "a")
    world.call_bytes["a"] = 60
    call = serve(world, "y", "a", "a")
    assert world.codes()[call] == "ok"
    assert len(world.kinds(ins.Load)) == 1
    assert held(world) == {"a": 83}


def test_a_larger_call_on_a_full_slice_makes_room_and_runs_again() -> None:
    world = World(budget=100, sizes={"a": 20, "b": 30, "c": 30}, call_bytes={"a": 5})
    for name in "abc":
        serve(world, name, name, name)
    world.call_bytes["a"] = 40
    call = serve(world, "again", "a", "a")
    assert world.codes()[call] == "ok"
    assert evicted(world) == ["b"]
    assert held(world) == {"c": 31, "a": 62}


def test_a_larger_call_waits_for_a_load_that_has_the_room() -> None:
    world = World(budget=100, sizes={"a": 20, "b": 20}, call_bytes={"a": 5})
    serve(world, "x", "a", "a")
    world.call_bytes["a"] = 40
    world.prepare("z", "b", "b", usual=ONCE)
    world.run(10)  # it loads
    world.prepare("y", "a", "a", usual=ONCE)
    call = world.call("y", "a")
    world.run(1000)
    assert world.codes()[call] == "ok"
    assert len(world.kinds(ins.Load)) == 2


def test_a_call_that_has_changed_its_model_starts_anew() -> None:
    world = World(budget=100, sizes={"a": 20}, call_bytes={"a": 5}, stateful=frozenset("a"))
    serve(world, "x", "a", "a")
    world.call_bytes["a"] = 60
    call = serve(world, "y", "a", "a")
    assert world.codes()[call] == "ok"
    assert len(world.kinds(ins.Load)) == 2


def test_a_call_that_cannot_be_repeated_is_lent_all_that_is_free() -> None:
    world = World(budget=100, sizes={"a": 20}, call_bytes={"a": 5}, stateful=frozenset("a"))
    world.prepare("x", "a", "a")
    calls = [world.call("x", "a")]
    world.run(500)
    world.call_bytes["a"] = 79
    calls.append(world.call("x", "a"))
    world.run(500)
    assert [world.codes()[call] for call in calls] == ["ok"] * 2
    assert len(world.kinds(ins.Load)) == 1


def test_a_call_that_could_not_be_repeated_teaches_what_the_next_one_needs() -> None:
    world = World(budget=100, sizes={"a": 20, "b": 30, "c": 25}, call_bytes={"a": 5}, stateful=frozenset("a"))
    for name in "abc":
        serve(world, name, name, name)
    world.prepare("x", "a", "a")
    calls = [world.call("x", "a")]
    world.run(500)
    world.call_bytes["a"] = 40
    calls.append(world.call("x", "a"))
    world.run(500)
    world.end("x")
    assert [world.codes()[call] for call in calls] == ["ok", "model_too_large"]
    assert "changed" in world.answers[calls[1]].failure.message
    again = serve(world, "y", "a", "a")
    assert world.codes()[again] == "ok"
    assert held(world)["a"] >= 60


def test_a_worker_that_the_kernel_ended_for_its_memory_gets_more_and_the_call_runs_again() -> None:
    world = World(budget=100, sizes={"a": 20})
    serve(world, "x", "a", "a")
    world.call_ms = 10**4
    world.prepare("y", "a", "a", usual=ONCE)
    call = world.call("y", "a")
    incarnation, _ = world.alive.pop("a")
    del world.holds["a"], world.limits["a"]
    world.running.clear()
    world.call_ms = 10
    world.tell(ev.WorkerGone("a", incarnation, "it passed the memory that it may hold", over_limit=True))
    world.run(1000)
    assert world.codes()[call] == "ok"
    assert max(limits(world, "a")[-2:]) == 100  # it is lent all of the slice
    assert [load.reason for load in world.kinds(ins.Load)] == ["model 1 of 1"] * 2


def test_a_call_that_no_slice_of_this_size_can_hold_is_refused_with_both_sizes() -> None:
    world = World(budget=100, sizes={"a": 20}, call_bytes={"a": 500})
    call = serve(world, "x", "a", "a")
    failure = world.answers[call].failure
    assert failure is not None
    assert failure.code == "model_too_large"
    assert "520" in failure.message
    assert "100" in failure.message


def test_without_a_measure_every_call_is_lent_what_is_free() -> None:
    world = World(budget=100, sizes={"a": 20}, call_bytes={"a": 30}, measures=False)
    for binding in "xyz":
        call = serve(world, binding, "a", "a")
        assert world.codes()[call] == "ok"
    assert limits(world, "a") == [100, 20] * 3
