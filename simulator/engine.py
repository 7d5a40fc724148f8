"""The discrete-event driver: the scheduler's core in virtual time, on the slices and arrivals of a scenario.

It is to the core what the live service is: it hands in events with their time and carries out the
bindings that come back. No rule of placement or eviction is written here.
"""

from __future__ import annotations

import heapq
import itertools
from dataclasses import dataclass, replace

from proto.types.placing import Place
from proto.types.slices import CachedWorker, SliceSpec, SliceState, SliceStatus, WorkerStatus
from scheduler.core import events as ev
from scheduler.core.core import SchedulerCore
from scheduler.core.instructions import Bind
from scheduler.core.policies.base import Policy
from scheduler.core.tuning import PAPER, Tuning
from simulator.live_policy import AsLive
from simulator.node import Copies, SimulatedSlice, Stay, Work
from simulator.profiles import Noise, ScenarioEstimates
from simulator.scenario import EQUAL_BYTES, Scenario, SliceOf

_NODE = "scenario"


@dataclass(frozen=True, slots=True)
class Run:
    """What happened: the work of every request, in the scenario's order, and what was where for how long."""

    scenario: Scenario
    policy: Policy
    works: tuple[Work, ...]
    copies: Copies
    stays: tuple[tuple[Stay, ...], ...]  # by index of the slice

    @property
    def makespan_ns(self) -> int:
        """The last finish; the clock starts at 0."""
        return max((work.finish_ns for work in self.works), default=0)


class Engine:
    """One run. Completions of an instant come before its arrivals, by slice index; arrivals in list order."""

    def __init__(self, scenario: Scenario, policy: Policy) -> None:
        self.scenario = scenario
        self.policy = policy
        self.estimates, numbers = ScenarioEstimates(scenario), itertools.count()
        self.core = SchedulerCore(policy, self.estimates, self.tuning(), make_id=lambda: str(next(numbers)))
        self.copies = Copies()
        self.noise = Noise(scenario)
        held = dict.fromkeys(scenario.models, 0) if scenario.preloaded else {}
        self.slices = {g.id: self.make_slice(index, g, held) for index, g in enumerate(scenario.slices)}
        self._by_index = list(self.slices.values())
        self._ends: list[tuple[int, int]] = []  # (when, index of the slice)
        requests = scenario.requests
        self._arrivals = sorted(range(len(requests)), key=lambda i: (requests[i].at_ns, i))
        self._arrived = 0
        self._works: dict[int, Work] = {}
        self._join(held)

    def tuning(self) -> Tuning:
        """The rules of the core."""
        return replace(PAPER, equal_bytes=EQUAL_BYTES, recent=0)

    def make_slice(self, index: int, g: SliceOf, held: dict[str, int]) -> SimulatedSlice:
        """One slice, with what it holds at the beginning."""
        return SimulatedSlice(index, g, self.estimates, self.noise, self.copies, held)

    def _join(self, held: dict[str, int]) -> None:
        self.specs = specs = tuple(
            SliceSpec(g.id, _NODE, index, g.gpcs, g.memory_bytes, "simulated")
            for index, g in enumerate(self.scenario.slices)
        )
        self.core.handle(ev.NodeJoined(0, _NODE, specs))
        workers = tuple(CachedWorker(model, WorkerStatus.READY, size, 0) for model, size in held.items())
        for spec in specs if workers else ():
            state = SliceState(spec, 0, "", SliceStatus.IDLE, spec.memory_bytes, workers)
            self.core.handle(ev.SliceReported(0, state))

    def run(self) -> Run:
        """Until every request has finished."""
        while self.step():
            pass
        works = tuple(self._works[index] for index in range(len(self.scenario.requests)))
        return Run(self.scenario, self.policy, works, self.copies, tuple(tuple(g.stays) for g in self._by_index))

    def step(self) -> bool:
        """Let the next event happen; False if there is none."""
        arrivals, requests = self._arrivals, self.scenario.requests
        at_ns = requests[arrivals[self._arrived]].at_ns if self._arrived < len(arrivals) else None
        if self._ends and (at_ns is None or self._ends[0][0] <= at_ns):
            self._complete(*heapq.heappop(self._ends))
        elif at_ns is not None:
            index = arrivals[self._arrived]
            self._arrived += 1
            self._arrive(index)
        else:
            return False
        return True

    def _arrive(self, index: int) -> None:
        r = self.scenario.requests[index]
        # To the core an SLA of 0 is none; one that rounds to 0 ns can be met no more than one in the past.
        sla_ns = 0 if r.sla_ns is None else r.sla_ns or -1
        self._tell(ev.Placed(r.at_ns, "", Place(str(index), r.model, r.batch, sla_ns)))

    def _complete(self, now_ns: int, index: int) -> None:
        finished, started = self._by_index[index].done(now_ns)
        if started is not None:
            self._start(index, started)
        self._tell(ev.BindingEnded(now_ns, finished.bind.binding_id))

    def _tell(self, event: ev.Event) -> None:
        for said in self.core.handle(event):
            assert isinstance(said, Bind)  # by the papers' rules nobody is refused and nothing is taken back
            g = self.slices[said.slice]
            started = g.take(said, event.now_ns)
            if started is not None:
                self._start(g.index, started)

    def _start(self, index: int, work: Work) -> None:
        self._works[int(work.bind.request.call_id)] = work
        heapq.heappush(self._ends, (work.finish_ns, index))


def simulate(scenario: Scenario, policy: Policy) -> Run:
    """Run a scenario under a policy; the same input gives the same run."""
    if isinstance(policy, AsLive):
        from simulator.live_engine import LiveEngine  # which is built on this module

        return LiveEngine(scenario, policy).run()
    return Engine(scenario, policy).run()
