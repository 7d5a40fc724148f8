"""What is loaded, what goes for it, and what is refused."""

from gpu_manager.core import events as ev
from gpu_manager.core import instructions as ins
from gpu_manager.core.memory import Sizes
from proto.types.errors import SlicewiseError
from tests.turns.slice_world import MS, World
from tests.turns.test_turns import ONCE


def evicted(world: World) -> list[str]:
    return [kill.worker for kill in world.kinds(ins.Kill) if kill.evicted]


def serve(world: World, binding: str, worker: str, model: str) -> int:
    world.prepare(binding, worker, model, usual=ONCE)
    number = world.call(binding, model)
    world.run(1000)
    world.end(binding)
    return number


def test_concurrent_misses_of_one_worker_load_it_once() -> None:
    world = World()
    for number in range(5):
        world.prepare(f"b{number}", "a", "m")
        world.call(f"b{number}", "m")
    world.run()
    assert len(world.kinds(ins.Load)) == 1
    assert set(world.codes().values()) == {"ok"}
    assert [answer.hit for answer in world.answers.values()] == [False, True, True, True, True]


def test_exactly_the_needed_victims_go_least_recently_used_first() -> None:
    world = World(budget=100, sizes={"a": 20, "b": 20, "c": 20, "d": 20, "e": 45})
    for name in "abcd":
        serve(world, f"b-{name}", name, name)
    serve(world, "again-a", "a", "a")
    serve(world, "b-e", "e", "e")
    assert evicted(world) == ["b", "c"]
    told = {loaded.worker: loaded.evicted for loaded in world.kinds(ins.WorkerLoaded)}
    assert told == {"a": (), "b": (), "c": (), "d": (), "e": ("b", "c")}
    assert [worker.key for worker in world.core.report(0).workers] == ["d", "a", "e"]


def test_room_for_one_and_calls_for_three_all_answer_in_turn() -> None:
    world = World(budget=25, sizes={"a": 20, "b": 20, "c": 20})
    for name in "abc":
        world.prepare(f"b-{name}", name, name, usual=ONCE)
    calls = [world.call(f"b-{name}", name) for name in "abc"]
    world.run()
    assert [world.codes()[call] for call in calls] == ["ok"] * 3
    assert list(world.answers) == calls
    assert evicted(world) == ["a", "b"]


def test_a_busy_worker_cannot_keep_another_out_for_ever() -> None:
    world = World(budget=25, sizes={"a": 20, "b": 20})
    serve(world, "warm", "a", "a")
    for number in range(20):
        world.prepare(f"x{number}", "a", "a", usual=ONCE)
        world.call(f"x{number}", "a")
    world.prepare("y", "b", "b", usual=ONCE)
    wanted = world.call("y", "b")
    for number in range(20, 60):
        world.prepare(f"x{number}", "a", "a", usual=ONCE)
        world.call(f"x{number}", "a")
    world.run()
    order = [a for a in world.answers if a != 1]
    # After those that were there before it; one more runs while the cache manager is asked.
    assert order.index(wanted) == 21


def test_an_eviction_waits_for_the_running_call() -> None:
    world = World(budget=25, sizes={"a": 20, "b": 20})
    world.call_ms = 500
    serve(world, "warm", "a", "a")
    world.prepare("x", "a", "a", usual=ONCE)
    call = world.call("x", "a")
    world.prepare("y", "b", "b", usual=ONCE)
    other = world.call("y", "b")
    world.run()
    assert world.codes()[call] == world.codes()[other] == "ok"
    assert world.answers[other].queue_ns + world.answers[other].load_ns >= 500 * MS


def test_a_load_runs_beside_a_turn_when_memory_is_free() -> None:
    world = World(budget=100)
    serve(world, "warm", "a", "a")
    world.call_ms = 1000
    world.prepare("x", "a", "a", usual=ONCE)
    world.call("x", "a")
    started = world.now
    world.prepare("y", "b", "b", usual=ONCE)
    world.run(150)
    assert [w.key for w in world.core.report(0).workers if w.models] == ["a", "b"]
    assert world.now - started < 1000 * MS


def test_loads_of_one_slice_run_one_at_a_time() -> None:
    world = World(budget=100)
    for name in "abc":
        world.prepare(f"b{name}", name, name)
    started = world.now
    world.run(350)
    loads = [(when - started) // MS for when, order in world.log if isinstance(order, ins.Load)]
    assert loads == [1, 101, 201]


def test_state_and_due_calls_are_never_victims() -> None:
    world = World(budget=45, sizes={"a": 20, "b": 20, "c": 20}, stateful=frozenset({"a"}))
    world.prepare("ba", "a", "a")
    world.call("ba", "a")
    world.run(200)  # a is exclusive to ba
    slow = ev.Usual(gap_ns=90 * MS, calls=1.0)
    world.prepare("bb", "b", "b", usual=slow)
    world.run(150)  # b is loaded, its call is due until 180 ms after that
    world.prepare("bc", "c", "c", usual=ONCE)
    call = world.call("bc", "c")
    world.run(120)
    assert evicted(world) == []
    world.run(500)
    assert evicted(world) == ["b"]
    assert world.codes()[call] == "ok"
    late = world.call("bb", "b")  # its own worker has gone: it is loaded again within the same binding
    world.run()
    assert world.codes()[late] == "ok"


def test_a_due_call_is_waited_for_no_longer_than_two_loads() -> None:
    """A parent that waits for its child between its calls must not keep that child out by the time it waited before."""
    world = World(budget=30, sizes={"parent": 20, "child": 20})
    world.prepare("p", "parent", "parent", usual=ev.Usual(between_ns=60_000 * MS, calls=2.0))
    world.call("p", "parent")
    world.run(150)
    asked = world.now
    world.prepare("c", "child", "child", usual=ONCE)
    child = world.call("c", "child")
    world.run()
    assert world.codes()[child] == "ok"
    (when,) = [at for at, order in world.log if isinstance(order, ins.Kill) and order.worker == "parent"]
    ended = next(at for at, order in world.log if isinstance(order, ins.Answer))
    assert when - ended == (2 * 100 + 1) * MS  # two loads, and the look for victims
    assert asked < when


def test_what_came_due_while_an_event_was_handled_is_not_slept_through() -> None:
    """The driver asks for the next wake-up a moment after it has told the core of an event."""
    world = World(budget=30, sizes={"a": 20, "b": 20})
    world.prepare("x", "a", "a", usual=ev.Usual(between_ns=90 * MS, calls=2.0))
    world.call("x", "a")
    world.run(150)
    world.prepare("y", "b", "b", usual=ONCE)
    world.call("y", "b")
    world.run(10)
    due = world.core.wakeup(world.now)
    assert due is not None
    world.now = due - 1
    world.tell(ev.Tick())
    assert world.core.wakeup(due + 1) == due + 1


def test_an_overrun_is_admitted_again_at_its_true_size_and_remembered() -> None:
    world = World(budget=100)
    for name in "abcd":
        serve(world, name, name, name)
    world.sizes["big"] = 10  # what is declared
    world.prepare("x", "big", "big", usual=ONCE)
    world.sizes["big"] = 75  # what it is
    call = world.call("x", "other")  # a second model of the same invocation
    world.run()
    assert world.codes()[call] == "ok"
    assert world.alive["big"][1] == 85
    assert evicted(world) == ["a", "b", "c"]
    world.end("x")
    world.die("big")
    before = len(world.kinds(ins.Load))
    world.prepare("y", "big", "big", "other", usual=ONCE)
    world.run()
    assert len(world.kinds(ins.Load)) == before + 2  # the size was known: nothing was loaded twice


def test_a_second_model_joins_the_same_worker() -> None:
    world = World(budget=100, sizes={"m1": 30, "m2": 30})
    world.prepare("b", "a", "m1")
    first, second = world.call("b", "m1"), world.call("b", "m2")
    world.run()
    assert [world.codes()[n] for n in (first, second)] == ["ok", "ok"]
    assert world.holds["a"] == ["m1", "m2"]


def test_a_worker_that_would_outgrow_its_slice_starts_again_with_the_present_models() -> None:
    world = World(budget=100, sizes={"m1": 60, "m2": 60})
    serve(world, "b1", "a", "m1")
    call = serve(world, "b2", "a", "m2")
    assert world.codes()[call] == "ok"
    assert world.holds["a"] == ["m2"]


def test_models_that_fit_no_slice_are_refused_with_both_sizes() -> None:
    world = World(budget=100, sizes={"m1": 60, "m2": 60, "huge": 500})
    world.prepare("b1", "a", "huge")
    alone = world.call("b1", "huge")
    world.prepare("b2", "c", "m1")
    first = world.call("b2", "m1")
    world.run()
    both = world.call("b2", "m2")
    world.run()
    assert [world.codes()[n] for n in (alone, first, both)] == ["model_too_large", "ok", "model_too_large"]
    assert "500" in str(world.answers[alone].failure)
    assert "100" in str(world.answers[alone].failure)


def test_an_overrun_beyond_the_slice_is_refused_with_the_true_size() -> None:
    world = World(budget=100)
    world.prepare("b", "a", "m")
    world.sizes["m"] = 140
    call = world.call("b", "m", deadline_ms=3000)
    world.run()
    assert world.codes()[call] in ("model_too_large",)
    assert "140" in str(world.answers[call].failure)
    assert world.alive == {}


def test_an_absent_cache_manager_fails_the_load_and_leaves_warm_calls_alone() -> None:
    world = World(budget=25, sizes={"a": 20, "b": 20})
    serve(world, "warm", "a", "a")
    world._name_victims = lambda order: world.tell(  # type: ignore[method-assign]
        ev.VictimsNamed(order.worker, (), SlicewiseError("unavailable", "The cache manager is away."))
    )
    world.prepare("y", "b", "b", usual=ONCE)
    missed = world.call("y", "b")
    world.prepare("x", "a", "a", usual=ONCE)
    warm = world.call("x", "a")
    world.run()
    assert [world.codes()[n] for n in (missed, warm)] == ["unavailable", "ok"]


def test_a_cyclic_scan_over_more_than_fits_never_errors() -> None:
    world = World(budget=45, sizes=dict.fromkeys("abcde", 20))
    calls = [serve(world, f"{name}{lap}", name, name) for lap in range(8) for name in "abcde"]
    assert {world.codes()[call] for call in calls} == {"ok"}
    assert not any(world.core.counts().values())


def test_parent_and_child_on_one_slice_that_holds_one_of_them() -> None:
    world = World(budget=25, sizes={"parent": 20, "child": 20})
    world.prepare("p", "parent", "parent", usual=ev.Usual(between_ns=300 * MS, calls=2.0))
    first = world.call("p", "parent")
    world.run(120)
    world.prepare("c", "child", "child", usual=ONCE)
    child = world.call("c", "child")
    world.run(2000)
    world.end("c")
    again = world.call("p", "parent")
    world.run()
    assert [world.codes()[n] for n in (first, child, again)] == ["ok"] * 3


def test_a_call_that_outgrows_its_worker_runs_again_in_a_larger_one() -> None:
    world = World(budget=100, sizes={"a": 30, "b": 40})
    serve(world, "warm", "b", "b")
    world.call_ms = 10**4
    world.prepare("x", "a", "a", usual=ONCE)
    call = world.call("x", "a")
    world.run(200)
    world.running.clear()
    world.call_ms = 10
    world.tell(ev.CallDone(call, needed_bytes=70))
    world.run()
    assert world.codes()[call] == "ok"
    assert evicted(world) == ["b"]
    world.prepare("y", "a", "a", usual=ONCE)
    hopeless = world.call("y", "a")
    world.tell(ev.CallDone(hopeless, failure=SlicewiseError("model_failed", "out of memory"), needed_bytes=500))
    assert world.codes()[hopeless] == "model_too_large"


def test_workers_of_deleted_functions_and_old_revisions_go_when_nobody_uses_them() -> None:
    world = World(budget=100, sizes=dict.fromkeys("abc", 20))
    for name in "abc":
        serve(world, name, name, name)
    world.prepare("late", "b", "b")
    running = world.call("late", "b")
    assert world.running
    world.tell(ev.Wanted(frozenset("c")))
    world.run(1000)
    assert set(world.alive) == {"b", "c"}  # the invocation of b may go on
    assert world.codes()[running] == "ok"
    world.end("late")
    world.run(1000)
    assert set(world.alive) == {"c"}
    world.tell(ev.Wanted(frozenset("abc")))
    again = serve(world, "again", "a", "a")
    assert world.codes()[again] == "ok"


def test_what_calls_made_of_a_worker_is_kept_free_for_it_when_it_is_loaded_again() -> None:
    world = World(budget=100, sizes={"a": 40, "b": 60})
    serve(world, "x", "a", "a")
    world.tell(ev.Measured("a", world.alive["a"][0], 45))
    serve(world, "y", "b", "b")
    assert set(world.alive) == {"b"}  # beside 45 there is no room for 60
    serve(world, "z", "a", "a")
    assert [worker.held_bytes for worker in world.core.report(0).workers] == [45]
    serve(world, "y2", "b", "b")
    assert set(world.alive) == {"b"}


def test_a_worker_that_never_served_gets_room_for_its_first_call() -> None:
    world = World(budget=100, sizes={"a": 40, "b": 58}, overhead=12)
    world.prepare("x", "a", "a", usual=ONCE)
    world.run(150)
    assert [worker.held_bytes for worker in world.core.report(0).workers] == [43]
    world.tell(ev.Measured("a", world.alive["a"][0], 41))
    assert [worker.held_bytes for worker in world.core.report(0).workers] == [41]


def test_a_load_that_needs_more_while_it_runs_than_later_is_not_tried_twice_again() -> None:
    others = "abcdefghij"
    world = World(budget=100, sizes=dict.fromkeys(others, 10))
    for name in others:
        serve(world, name, name, name)
    world.prepare("x", "peak", "peak", usual=ONCE)
    world.sizes["peak"] = 45  # while it loads
    world.run(1000)
    world.end("x")
    assert len(world.kinds(ins.Load)) == len(others) + 2
    world.tell(ev.Measured("peak", world.alive["peak"][0], 25))  # what it holds then
    world.die("peak")
    for name in others:
        serve(world, f"{name}2", name, name)
    loads = len(world.kinds(ins.Load))
    world.prepare("y", "peak", "peak", usual=ONCE)
    world.run(1000)
    assert len(world.kinds(ins.Load)) == loads + 1


def test_an_overrun_that_cannot_say_how_much_it_needs_grows_by_a_quarter() -> None:
    sizes = Sizes(1000, 0)
    assert sizes.after_overrun(400, 401) == 500
    assert sizes.after_overrun(400, 450) == 450
    assert sizes.after_overrun(900, 901) == 1000
    assert sizes.after_overrun(1000, 1001) > 1000


def test_a_model_that_cannot_be_had_does_not_hold_up_the_others_of_its_function() -> None:
    world = World(budget=100, sizes={"a": 20, "b": 20})
    serve(world, "warm", "w", "a")
    world.prepare("x", "w", usual=ONCE)
    broken = world.call("x", "gone")
    world.tell(ev.Fetched("w", ("gone",), SlicewiseError("not_found", "There is no such model.")))
    assert world.codes()[broken] == "not_found"
    world.prepare("y", "w", "b", usual=ONCE)  # while x goes on
    call = world.call("y", "b")
    world.run(1000)
    assert world.codes()[call] == "ok"
