"""Whatever happens in whatever order: never above the budget, one call at a time, nothing left behind."""

from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_manager.core import events as ev
from gpu_manager.core import instructions as ins
from tests.turns.slice_world import MS, World

MODELS = ["m0", "m1", "m2", "m3"]

step = st.one_of(
    st.tuples(st.just("prepare"), st.integers(0, 3), st.integers(0, 3)),
    st.tuples(st.just("call"), st.integers(0, 30), st.integers(0, 3), st.sampled_from([5, 80, 400, 5000])),
    st.tuples(st.just("cancel"), st.integers(0, 30)),
    st.tuples(st.just("end"), st.integers(0, 30)),
    st.tuples(st.just("die"), st.integers(0, 3)),
    st.tuples(st.just("freeze"), st.integers(0, 3)),
    st.tuples(st.just("wanted"), st.sets(st.sampled_from(["w0", "w1", "w2", "w3"]))),
    st.tuples(st.just("run"), st.sampled_from([0.5, 1, 3, 11, 60, 250])),
)


@settings(max_examples=150, deadline=None)
@given(
    steps=st.lists(step, max_size=60),
    sizes=st.lists(st.integers(5, 70), min_size=4, max_size=4),
    declared=st.lists(st.integers(5, 70), min_size=4, max_size=4),
    stateful=st.sets(st.sampled_from(MODELS)),
    call_bytes=st.lists(st.integers(0, 40), min_size=4, max_size=4),
    measures=st.booleans(),
    calls=st.sampled_from([0.0, 1.0, 2.0]),
)
def test_budget_turns_and_counters(steps, sizes, declared, stateful, call_bytes, measures, calls) -> None:
    world = World(budget=100, sizes=dict(zip(MODELS, declared, strict=True)), stateful=frozenset(stateful))
    world.call_bytes, world.measures = dict(zip(MODELS, call_bytes, strict=True)), measures
    bindings: list[str] = []
    sent: list[int] = []
    cancelled: set[int] = set()
    usual = ev.Usual(gap_ns=20 * MS, between_ns=3 * MS, calls=calls)
    for what, *arguments in steps:
        if what == "prepare":
            worker, model = arguments
            bindings.append(f"b{len(bindings)}")
            world.prepare(bindings[-1], f"w{worker}", MODELS[model], usual=usual, expires_ms=20_000)
            world.sizes = dict(zip(MODELS, sizes, strict=True))  # what they truly need
        elif what == "call" and bindings:
            number, model, deadline = arguments
            sent.append(world.call(bindings[number % len(bindings)], MODELS[model], deadline))
        elif what == "cancel" and sent:
            number = sent[arguments[0] % len(sent)]
            if number not in world.running:
                cancelled.add(number)
            world.tell(ev.CallCancelled(number))
        elif what == "end" and bindings:
            world.end(bindings[arguments[0] % len(bindings)])
        elif what == "die":
            worker = f"w{arguments[0]}"
            if worker in world.alive:
                world.running = {n: w for n, w in world.running.items() if w != worker}
                world.die(worker)
        elif what == "freeze":
            world.frozen ^= {f"w{arguments[0]}"}
        elif what == "wanted":
            world.tell(ev.Wanted(frozenset(arguments[0])))
        elif what == "run":
            world.run(arguments[0])
    world.run(60_000)
    assert set(sent) - set(world.answers) <= cancelled, "a call was never answered"
    assert not any(world.core.counts().values()), world.core.counts()
    began, over = len(world.kinds(ins.TurnBegan)), len(world.kinds(ins.TurnOver))
    assert began == over
