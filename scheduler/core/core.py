"""The scheduler itself: events in, instructions out; no clock, no I/O, no randomness.

The service feeds it what gateways, brokers and GPU managers say, the simulator what a scenario says;
both carry out what it answers. Decisions come from the policy, lives of bindings from the ledger,
slices from the topology, the line from the waiting room; this file joins them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from proto.types.placing import Demand, Place
from proto.types.slices import SHARED_POOL
from scheduler.core import events as ev
from scheduler.core.estimates import Estimates, Profiles
from scheduler.core.history import History, Load, Placement
from scheduler.core.instructions import Bind, Instruction, Keep
from scheduler.core.ledger import Ledger
from scheduler.core.policies.base import Decision, Policy
from scheduler.core.pools import Pools
from scheduler.core.records import Records
from scheduler.core.requests import Request
from scheduler.core.room import WaitingRoom
from scheduler.core.sight import sight
from scheduler.core.slices import Bound, Slice
from scheduler.core.state import State
from scheduler.core.topology import Topology
from scheduler.core.tuning import PAPER, Tuning

_RATE_NS = 30e9  # calls a second are averaged over about half a minute, a few turns of a busy slice's cache
_MAX_RATES = 4096  # worker keys whose rates are kept before the long silent ones are dropped
_DEMANDED = 256  # workers named in one Keep; the most wanted come first
_OFTEN = 30  # calls within about _RATE_NS from which on their number says more than the last one's time
_SPARE = 0.5  # of a slice's time that one worker's calls may take before a second copy is worth its room
_SILENT = 3  # usual intervals without a call, after which a worker is not expected to be called so often any more
_RETRY_AFTER_S = (1.0, 60.0)  # bounds of the advice given with queue_full


class SchedulerCore:
    """One scheduler. `make_id` names bindings; `learn` is told what turns and loads took, if given."""

    def __init__(
        self,
        policy: Policy,
        estimates: Estimates,
        tuning: Tuning = PAPER,
        *,
        make_id: Callable[[], str],
        learn: Profiles | None = None,
    ) -> None:
        self.policy = policy
        self.tuning = tuning
        self.state = State(estimates, tuning)
        self.records = Records(History(tuning.recent))
        self._out: list[Instruction] = []
        self.ledger = Ledger(self.state, self.records, self._out)
        self.room = WaitingRoom(self.state, self.records, self._out)
        self.topology = Topology(self.state, self.ledger)
        self.pools = Pools(self.state)
        self._make_id = make_id
        self._learn = learn
        self._sequence = 0
        self._started_ns: int | None = None
        self._rates: dict[str, tuple[float, int]] = {}  # worker -> (calls a second, when that was)
        self._on: dict[type[ev.Event], Callable[[Any], None]] = {
            ev.Placed: self._placed,
            ev.Cancelled: self._cancelled,
            ev.Released: self._released,
            ev.OwnerGone: self._owner_gone,
            ev.OwnerBack: lambda e: self.ledger.owner_back(e.owner, e.bindings),
            ev.NodeExpected: lambda e: self._moved(self.topology.expect(e.specs)),
            ev.NodeJoined: lambda e: self._moved(self.topology.join(e.node, e.specs)),
            ev.NodeLost: lambda e: self._moved(self.topology.leave(e.node) or True),
            ev.SliceReported: self._reported,
            ev.TurnStarted: self._turn_started,
            ev.TurnEnded: self._turn_ended,
            ev.Loaded: self._loaded,
            ev.BindingEnded: self._binding_ended,
            ev.ProfileChanged: lambda e: self._moved(True),
            ev.FunctionDeleted: self._function_deleted,
            ev.FunctionReserves: lambda e: self._moved(self.pools.reserve(e.function, e.wish, e.worker)),
            ev.PoolsSet: lambda e: self._moved(self.pools.set(e.pools)),
            ev.PoolsRestored: lambda e: self._moved(self.pools.restore(e.by_hand, e.chosen, e.functions)),
            ev.PolicySet: self._policy_set,
            ev.Tick: self._tick,
        }

    # ------------------------------------------------------------------ the one door

    def handle(self, event: ev.Event) -> list[Instruction]:
        """Take one event and decide until there is nothing more to do; the same events give the same answers.

        Raises ValueError when time runs backward.
        """
        if event.now_ns < self.state.now_ns:
            raise ValueError(f"time runs backward: {event.now_ns} after {self.state.now_ns}")
        self.state.now_ns = event.now_ns
        if self._started_ns is None:
            self._started_ns = event.now_ns
        self._on[type(event)](event)
        if self.pools.moving and self.pools.settle():
            self._moved(True)
        if self.tuning.stall_factor:
            self._stall()
        self.room.expire()
        self._schedule()
        if self.tuning.queue_limit and isinstance(event, ev.Placed):
            self._enforce_limit(event)
        said = self._out[:]
        self._out.clear()
        return said

    def next_timer(self) -> int | None:
        """When a Tick is due, None if no event is awaited from time alone. Housekeeping needs a Tick a second."""
        now, tuning = self.state.now_ns, self.tuning
        times = []
        deadline = self.room.next_deadline()
        if deadline is not None:
            times.append(deadline)
        head = self.state.queue.head
        # Turns that will be over before the head is loaded need not be waited for.
        load_ns = self.state.estimates.load_ns(head.worker) if head is not None and tuning.overlap_load else 0
        for g in self.state.slices if tuning.gaps else ():
            if head is not None and g.open and (g.running is not None or g.waiting):
                turns = g.free_at(now, tuning.overlap_load)
                for free_at in (turns, turns - load_ns, g.loads_until("", now)):
                    for gap_ns in (self.state.gap_ns(head), 0):  # others' gaps cost one event of delay at most
                        times.append(free_at - g.ahead_ns(gap_ns))
                times.extend(b.due_ns for b in g.waiting)
            if g.running is not None and g.waiting and not g.stalled and tuning.stall_factor:
                times.append(self._stalls_at(g.running))
        return min((at for at in times if at > now), default=None)

    @property
    def waiting(self) -> int:
        """Requests not bound yet."""
        return len(self.room)

    def calls_per_s(self, worker: str) -> float:
        """How often this worker was called of late."""
        rate, at = self._rates.get(worker, (0.0, 0))
        return rate * math.exp((at - self.state.now_ns) / _RATE_NS)

    # ------------------------------------------------------------------ calls and owners

    def _placed(self, event: ev.Placed) -> None:
        place, now = event.place, event.now_ns
        if self.room.find(event.owner, place.call_id) is not None:
            return
        bound = self.ledger.of_call(event.owner, place.call_id)
        if bound is not None:
            self._out.append(self._bind(bound, "the owner asked again", bound.request.skips, again=True))
            return
        self._sequence += 1
        self._rates[place.worker] = (self.calls_per_s(place.worker) + 1e9 / _RATE_NS, now)
        self.room.enter(self._request(event.owner, place), self._patient())

    def _request(self, owner: str, place: Place) -> Request:
        now = self.state.now_ns
        arrived_ns, skips = now - place.waited_ns, place.skips
        returned = self.ledger.returned(place.call_id, place.worker)
        if returned is not None:
            arrived_ns, skips = min(arrived_ns, returned[0]), max(skips, returned[1])
        return Request(
            owner=owner,
            call_id=place.call_id,
            worker=place.worker,
            batch=place.batch,
            sla_ns=place.sla_ns,
            arrived_ns=arrived_ns,
            deadline_ns=now + place.deadline_ns if place.deadline_ns else 0,
            sequence=self._sequence,
            skips=skips,
            late=place.late,
            avoid=frozenset(place.avoid),
        )

    def _enforce_limit(self, event: ev.Placed) -> None:
        """The queue holds exactly its limit: who came last and found it full is refused."""
        r = self.room.find(event.owner, event.place.call_id)
        if r is None or len(self.room) <= self.tuning.queue_limit or r.sequence != self._sequence:
            return
        turns, turn_ns = self.records.turns, self.records.turn_ns
        usual_s = turn_ns / turns / 1e9 if turns else 1.0
        drained_s = len(self.room) * usual_s / max(1, len(self.state.slices))
        low, high = _RETRY_AFTER_S
        text = f"{self.tuning.queue_limit} calls wait for a slice already."
        self.room.refuse(r, "queue_full", text, min(high, max(low, math.ceil(drained_s))))

    def _cancelled(self, event: ev.Cancelled) -> None:
        r = self.room.find(event.owner, event.call_id)
        if r is not None:
            self.room.leave(r)
            return
        b = self.ledger.of_call(event.owner, event.call_id)
        if b is not None:
            self.ledger.give_up(b, "cancelled by its owner")

    def _released(self, event: ev.Released) -> None:
        b = self.ledger.of_owner(event.owner, event.binding_id)
        if b is not None:
            self.ledger.give_up(b, "released by its owner")

    def _owner_gone(self, event: ev.OwnerGone) -> None:
        for r in self.room.of_owner(event.owner):
            self.room.leave(r)
        self.ledger.owner_gone(event.owner)

    def _function_deleted(self, event: ev.FunctionDeleted) -> None:
        for r in [*self.state.queue, *self.room.parked.values()]:
            if r.function == event.function:
                self.room.refuse(r, "not_found", f"{event.function} was deleted while its call waited.")
        for worker in [worker for worker in self._rates if worker.rpartition("@")[0] == event.function]:
            del self._rates[worker]
        self._moved(self.pools.forget(event.function))

    # ------------------------------------------------------------------ slices

    def _reported(self, event: ev.SliceReported) -> None:
        self._moved(self.topology.report(event.state))

    def _turn_started(self, event: ev.TurnStarted) -> None:
        here = self.ledger.bound.get(event.binding_id)
        b = here or self.ledger.overtaken(event.binding_id, over=False)
        if b is None:
            return
        if not b.began:
            self.records.began(event.hit, b.elsewhere)
            course = self.records.recent.course(b.id)
            if course is not None:
                course.began_ns, course.hit, course.false_miss = event.now_ns, event.hit, b.elsewhere and not event.hit
        b.reported = b.began = True
        b.slice.load_over(b.request.worker)
        if here is not None:
            self.ledger.start(here)

    def _turn_ended(self, event: ev.TurnEnded) -> None:
        b = self.ledger.bound.get(event.binding_id)
        overtaken = None if b is not None else self.ledger.overtaken(event.binding_id, over=True)
        b = b or overtaken
        if b is None:
            return
        g, r = b.slice, b.request
        estimated_ns = b.turn_ns
        # What was heard of its beginning may have been late, or may have come to nothing; its calls were timed there.
        took_ns = max(event.infer_ns, 0 if overtaken is not None else self.ledger.finish_turn(b))
        if event.handover_ns > 0:
            g.handover_ns += (event.handover_ns - g.handover_ns) * (0.2 if g.handover_ns else 1.0)
        course = self.records.recent.course(b.id)
        if course is not None:
            course.turned(event.now_ns, took_ns, event.calls, event.infer_ns)
        if took_ns <= 0 or b.adopted:
            return
        self.records.turned(took_ns, estimated_ns)
        if self._learn is not None and event.calls > 0:
            self._learn.learn_turn(r.worker, g.spec.gpcs, event.batch or r.batch, took_ns, event.calls, event.infer_ns)

    def _loaded(self, event: ev.Loaded) -> None:
        g = self.state.by_id.get(event.slice)
        if g is None:
            return
        self._note_load(g, event)
        if event.code:
            g.unforesee(event.worker)
        g.load_over(event.worker)
        if event.code:
            return
        if g.running is not None and g.running.request.worker == event.worker:
            g.running.started_ns = event.now_ns  # its turn began with the load; only what follows is its time
        for b in g.waiting:
            if b.request.worker == event.worker:
                b.ready_ns = max(event.now_ns, b.bound_ns + self.state.gap_ns(b.request))
                if b is g.waiting[0]:
                    b.due_ns = b.ready_ns + b.turn_ns
        if self._learn is not None:
            before = self._learn.held_bytes(event.worker)
            self._learn.learn_load(event.worker, event.load_ns, event.held_bytes)
            self._moved(event.held_bytes > before)

    def _note_load(self, g: Slice, event: ev.Loaded) -> None:
        """Measure the estimate that placed the load, and tell those who waited for it."""
        load, estimated_ns = Load(event.now_ns, event.load_ns, event.evicted, event.code), 0
        for b in g.bound.values():
            if b.request.worker != event.worker or (b.began and g.running is not b):
                continue
            estimated_ns = estimated_ns or b.load_ns
            course = self.records.recent.course(b.id)
            if course is not None:
                course.loaded(load)
        if not event.code and event.load_ns > 0:
            self.records.load.add(event.load_ns, estimated_ns or self.state.estimates.load_ns(event.worker))

    def _binding_ended(self, event: ev.BindingEnded) -> None:
        b = self.ledger.bound.get(event.binding_id)
        if b is None:
            return
        if event.code:
            self.ledger.take_back(b, event.code, event.message or event.code)
        else:
            self.ledger.end(b)

    def _moved(self, changed: bool) -> None:
        """Slices or sizes may have changed: see who can wait for what."""
        if changed and self.pools.used:
            self.pools.assign()
        if changed and self.tuning.gaps:
            self.room.sort_out(self._patient())

    def _patient(self) -> bool:
        started = self._started_ns if self._started_ns is not None else 0
        return self.state.now_ns - started < self.tuning.start_grace_ns

    # ------------------------------------------------------------------ time

    def _tick(self, event: ev.Tick) -> None:
        self._moved(self.topology.keep_house() or bool(self.room.parked))
        self.ledger.drop_orphans()
        if len(self._rates) > _MAX_RATES:
            self._rates = {w: (rate, at) for w, (rate, at) in self._rates.items() if event.now_ns - at < 10 * _RATE_NS}

    def _stalls_at(self, run: Bound) -> int:
        beyond_ns = int(self.tuning.stall_factor * run.turn_ns)
        return run.started_ns + max(self.tuning.stall_floor_ns, beyond_ns)

    def _stall(self) -> None:
        for g in self.state.slices:
            run = g.running
            if run is not None and not g.stalled and self.state.now_ns >= self._stalls_at(run):
                self.ledger.stall(g)

    # ------------------------------------------------------------------ decisions

    def _policy_set(self, event: ev.PolicySet) -> None:
        self.policy = event.policy

    def _schedule(self) -> None:
        """Ask the policy until it has nothing more to do; who waits for a pool holds up nobody of another."""
        self._decide()
        for others in self.pools.out_of_the_way() if self.state.at_home else ():
            for r in others:
                self.state.queue.remove(r)
            self._decide()
            for r in others:
                self.state.queue.add(r)

    def _decide(self) -> None:
        """Each decision takes one from the queue, so this ends."""
        while self.state.queue.head is not None:
            decision = self.policy.decide(self.state)
            if decision is None:
                return
            self._carry_out(decision)

    def _carry_out(self, decision: Decision) -> None:
        state, r, g = self.state, decision.request, decision.slice
        now = state.now_ns
        holders = state.holders.of(r.worker) if state.tuning.recent else []
        seen = sight(state, r, g, holders) if state.tuning.recent else ()
        foreseen: tuple[str, ...] = ()
        state.queue.overtake(r)
        hit = r.worker in g.held
        elsewhere = state.holders.elsewhere(r.worker, g)
        false_miss = elsewhere and not hit
        load_ns = 0 if hit else state.estimates.load_ns(r.worker)
        ready_ns = now + state.ready_ns(g, r)
        turn_ns = state.turn_ns(g, r)
        b = Bound(self._make_id(), r, g, hit, now, load_ns, turn_ns, ready_ns, elsewhere=elsewhere)
        if state.tuning.gaps:
            b.loads = not hit or g.loads(r.worker)
            b.due_ns = max(g.free_at(now, state.tuning.overlap_load), ready_ns) + turn_ns
        self.room.leave(r)
        bind = self._bind(b, decision.reason, r.skips, false_miss=false_miss, local=decision.local)
        if not hit and self.tuning.gaps:
            foreseen = self._prepare(g, r)
        self._out.append(bind)
        self.ledger.enter(b)
        self.records.placed(
            Placement(
                now, b.id, r.call_id, r.worker, g.id, hit, false_miss, decision.local,
                bind.queued_ns, r.skips, decision.reason, self.policy.name, r.batch, r.sla_ns,
                load_ns, turn_ns, len(state.slices), seen, tuple([h.id for h in holders]), foreseen,
            )
        )  # fmt: skip

    def _prepare(self, g: Slice, r: Request) -> tuple[str, ...]:
        """A load will start on `g`: foresee its victims (returned), and say first what had better stay."""
        needed = self.state.estimates.held_bytes(r.worker)
        demand: Mapping[str, Demand] = {}
        if self.tuning.keep and g.free_bytes < needed and g.held:
            demand = self._demand(g)
            self._out.append(Keep(f"{r.worker} needs room on {g.id}", g.id, g.spec.node, demand))
        return g.foresee(r.worker, needed, self.state.now_ns, demand)

    def _demand(self, g: Slice) -> Mapping[str, Demand]:
        here: dict[str, int] = {}
        for b in g.waiting:
            here[b.request.worker] = here.get(b.request.worker, 0) + 1
        demand = {
            w: Demand(here.get(w, 0) + len(self.state.queue.workers.get(w, ())), self._expected_per_s(w, g))
            for w in g.held
        }
        most = sorted(demand, key=lambda w: (demand[w].rank, w), reverse=True)
        return {w: demand[w] for w in most[:_DEMANDED]}

    def _expected_per_s(self, worker: str, g: Slice) -> float:
        """The calls a second that would miss it on `g`.

        0 if it was not called so often and so lately that as many may be expected, or if the other slices that
        hold it have the time for all of them.
        """
        rate = self.calls_per_s(worker)
        if g.pool != SHARED_POOL:  # guests of an earlier pool go first
            return rate if self.state.serves(g, worker) else 0.0
        silent_ns = self.state.now_ns - self._rates.get(worker, (0.0, 0))[1]
        if rate * _RATE_NS < _OFTEN * 1e9 or rate * silent_ns > _SILENT * 1e9:
            return 0.0
        others = sum(other is not g and other.open for other in self.state.holders.of(worker))
        busy = rate * self.state.estimates.turn_ns(worker, g.spec.gpcs, 0) / 1e9
        return rate if busy > others * _SPARE else 0.0

    def _bind(
        self, b: Bound, reason: str, skips: int, *, false_miss: bool = False, local: bool = False, again: bool = False
    ) -> Bind:
        return Bind(
            reason=reason,
            binding_id=b.id,
            request=b.request,
            slice=b.slice.id,
            node=b.slice.spec.node,
            hit=b.hit,
            false_miss=false_miss,
            local=local,
            queued_ns=b.bound_ns - b.request.arrived_ns,
            skips=skips,
            again=again,
        )
