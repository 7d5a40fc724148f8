"""Whatever comes in whatever order, nothing is left behind and nobody is forgotten."""

from __future__ import annotations

import contextlib
from dataclasses import replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from proto.types.errors import SlicewiseError
from proto.types.pools import Reservation
from scheduler.core import events as ev
from scheduler.core.instructions import Bind, Instruction, Refuse, TellOwner, Unbind
from scheduler.core.policies.registry import make_policy
from scheduler.core.tuning import LIVE
from tests.placing.live import MB, MS, Platform, key

WORKERS = "abcde"
LIMIT = 3
QUEUE = 12


class Interleavings(RuleBasedStateMachine):
    """Calls that come, are cancelled and end; turns, stalls, lost nodes and owners, changed policies."""

    @initialize(slices=st.integers(1, 3), policy=st.sampled_from(["lb", "lalb", "elsa"]))
    def begin(self, slices: int, policy: str) -> None:
        self.p = Platform(slices, 100 * MB, replace(LIVE, queue_limit=QUEUE), "lb")
        wish = {"name": policy} | ({"o3_limit": LIMIT} if policy == "lalb" else {})
        self.p.do(ev.PolicySet(self.p.now, make_policy(wish)))
        for i, w in enumerate(WORKERS):
            self.p.know(w, turn=(i + 1) * 10 * MS, load=50 * MS, held=30 * MB)
        self.calls = 0
        self.open: dict[str, str] = {}  # call -> queued | bound
        self.bound: dict[str, Bind] = {}  # binding -> what was said
        self.turning: dict[str, str] = {}  # slice -> binding
        self.answers: dict[str, int] = {}

    def hear(self, said: list[Instruction]) -> None:
        for i in said:
            if isinstance(i, Bind):
                assert not i.again
                assert self.open[i.request.call_id] == "queued"
                assert i.skips <= LIMIT
                self.open[i.request.call_id] = "bound"
                self.answers[i.request.call_id] = self.answers.get(i.request.call_id, 0) + 1
                self.bound[i.binding_id] = i
            elif isinstance(i, Refuse):
                assert self.open.pop(i.call_id) == "queued"
            elif isinstance(i, Unbind | TellOwner):
                self.end(i.binding_id)

    def end(self, binding_id: str) -> None:
        bind = self.bound.pop(binding_id, None)
        if bind is not None:
            self.open.pop(bind.request.call_id, None)
            self.turning = {g: b for g, b in self.turning.items() if b != binding_id}

    def pick(self, n: int) -> Bind | None:
        items = list(self.bound.values())
        return items[n % len(items)] if items else None

    @rule(worker=st.sampled_from(WORKERS), late=st.booleans(), owner=st.sampled_from(["g1", "g2"]))
    def place(self, worker: str, late: bool, owner: str) -> None:
        self.calls += 1
        self.open[str(self.calls)] = "queued"
        self.hear(self.p.place(str(self.calls), worker, owner, late=late, deadline_ns=500 * MS))

    @rule(ns=st.sampled_from([1, 5 * MS, 100 * MS, 2000 * MS]))
    def wait(self, ns: int) -> None:
        self.hear(self.p.wait(ns))

    @rule(n=st.integers(0, 20))
    def start_turn(self, n: int) -> None:
        bind = self.pick(n)
        if bind is not None and bind.slice not in self.turning:
            self.turning[bind.slice] = bind.binding_id
            self.hear(self.p.turn(bind))

    @rule(n=st.integers(0, 20))
    def end_turn(self, n: int) -> None:
        if self.turning:
            g, binding_id = sorted(self.turning.items())[n % len(self.turning)]
            del self.turning[g]
            self.hear(self.p.done(self.bound[binding_id]))

    @rule(n=st.integers(0, 20), code=st.sampled_from(["", "worker_died"]))
    def end_binding(self, n: int, code: str) -> None:
        bind = self.pick(n)
        if bind is not None:
            self.end(bind.binding_id)
            self.hear(self.p.do(ev.BindingEnded(self.p.now, bind.binding_id, code)))

    @rule(n=st.integers(0, 20))
    def release(self, n: int) -> None:
        bind = self.pick(n)
        if bind is not None:
            self.hear(self.p.do(ev.Released(self.p.now, bind.request.owner, bind.binding_id)))

    @rule(n=st.integers(0, 20))
    def cancel(self, n: int) -> None:
        queued = [call for call, stage in self.open.items() if stage == "queued"]
        if queued:
            call = queued[n % len(queued)]
            del self.open[call]
            for owner in ("g1", "g2"):
                self.hear(self.p.do(ev.Cancelled(self.p.now, owner, call)))

    @rule()
    def report(self) -> None:
        for slice_id in list(self.p.reports):
            shown = tuple(b.binding_id for b in self.bound.values() if b.slice == slice_id)
            self.hear(self.p.report(slice_id, bindings=shown, turn=self.turning.get(slice_id, "")))

    @rule()
    def lose_the_node(self) -> None:
        self.hear(self.p.do(ev.NodeLost(self.p.now, "n")))

    @rule()
    def node_comes_back(self) -> None:
        shown = {
            g: tuple(b.binding_id for b in self.bound.values() if b.slice == g) for g in self.p.reports
        }  # fmt: skip
        for g, bindings in shown.items():
            self.p.reports[g] = replace(self.p.reports[g], bindings=bindings, turn=self.turning.get(g, ""))
        self.hear(self.p.join())

    @rule(owner=st.sampled_from(["g1", "g2"]))
    def owner_breaks(self, owner: str) -> None:
        queued = {r.call_id for r in self.p.core.room.of_owner(owner)}
        self.open = {call: stage for call, stage in self.open.items() if call not in queued}
        self.hear(self.p.do(ev.OwnerGone(self.p.now, owner)))

    @rule(owner=st.sampled_from(["g1", "g2"]), drop=st.booleans())
    def owner_returns(self, owner: str, drop: bool) -> None:
        held = () if drop else tuple(b for b, bind in self.bound.items() if bind.request.owner == owner)
        self.hear(self.p.do(ev.OwnerBack(self.p.now, owner, held)))

    @precondition(lambda self: self.calls)
    @rule(worker=st.sampled_from(WORKERS))
    def delete(self, worker: str) -> None:
        self.hear(self.p.do(ev.FunctionDeleted(self.p.now, f"{worker}.ns")))

    @rule(n=st.integers(0, 2), worker=st.sampled_from(WORKERS), shared=st.booleans())
    def set_a_pool(self, n: int, worker: str, shared: bool) -> None:
        core, function = self.p.core, f"{worker}.ns"
        if function not in core.pools.functions:
            self.hear(self.p.do(ev.FunctionReserves(self.p.now, function, "")))
        wish = {f"s{n}": "shared" if shared else f"reserved:{function}"}
        with contextlib.suppress(SlicewiseError):
            core.pools.check_set(wish)
            self.hear(self.p.do(ev.PoolsSet(self.p.now, wish)))
            g = core.state.by_id[f"s{n}"]
            assert (g.moving_to or g.pool) == wish[g.id]

    @rule(worker=st.sampled_from(WORKERS), count=st.integers(0, 2))
    def reserve(self, worker: str, count: int) -> None:
        function = f"{worker}.ns"
        with contextlib.suppress(SlicewiseError):
            if count:
                self.p.core.pools.check_reserve(function, Reservation(count))
            self.hear(self.p.do(ev.FunctionReserves(self.p.now, function, str(count or ""))))
            own = [g for g in self.p.core.state.slices if f"reserved:{function}" in (g.moving_to or g.pool)]
            assert len(own) >= count

    @invariant()
    def pools_hold(self) -> None:
        if not hasattr(self, "p"):
            return
        for g in self.p.core.state.slices:
            functions = {b.request.function for b in g.bound.values()}
            assert g.pool == "shared" or {f"reserved:{function}" for function in functions} <= {g.pool}
            assert not g.moving_to or functions  # nothing else is waited for

    @invariant()
    def books_agree(self) -> None:
        if not hasattr(self, "p"):
            return
        core = self.p.core
        queued = [call for call, stage in self.open.items() if stage == "queued"]
        assert core.waiting == len(queued) <= QUEUE
        assert len(core.state.queue) + len(core.room.parked) == core.waiting
        assert set(core.ledger.bound) == set(self.bound)
        assert all(count == 1 for count in self.answers.values())
        for g in core.state.slices:
            assert g.used_bytes == sum(g.held.values())
            assert {b.id for b in g.bound.values()} == {b.binding_id for b in self.bound.values() if b.slice == g.id}
            assert set(g.waiting) <= set(g.bound.values())
            assert g.running is None or g.running.id in g.bound
            for worker in g.held:
                assert g in core.state.holders.of(worker)

    def teardown(self) -> None:
        """Everybody goes: every counter is back at zero."""
        if not hasattr(self, "p"):
            return
        for owner in ("g1", "g2"):
            self.p.do(ev.OwnerGone(self.p.now, owner))
        for bind in list(self.bound.values()):
            self.p.do(ev.Released(self.p.now, bind.request.owner, bind.binding_id))
        core = self.p.core
        assert core.waiting == len(core.ledger) == len(core.state.queue) == len(core.room.parked) == 0
        assert not core.state.queue.workers
        assert not core.ledger._of_owner
        assert not core.ledger._of_call
        assert not core.ledger._orphans
        for g in core.state.slices:
            assert not g.waiting
            assert g.running is None
            assert not g.bound
        self.p.do(ev.NodeJoined(self.p.now, "n", ()))
        assert not core.state.slices
        assert not any(core.state.holders.of(key(w)) for w in WORKERS)


Interleavings.TestCase.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
TestAnyInterleaving = Interleavings.TestCase
