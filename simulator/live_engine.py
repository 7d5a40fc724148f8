"""A scenario under the platform's rules: the core as it is tuned live, on slices that tell it what GPU managers tell.

What a live platform has beyond this (processes, the network, a handler's own work before its first call) takes no
time here; `ahead_s` is what the platform measures as its hand-over time.
"""

from __future__ import annotations

import heapq
from dataclasses import replace

from scheduler.core import events as ev
from scheduler.core.instructions import Bind, Keep
from scheduler.core.tuning import LIVE, PAPER, Tuning
from simulator.engine import Engine
from simulator.live_node import LiveSlice
from simulator.live_policy import AsLive
from simulator.scenario import EQUAL_BYTES, Scenario, SliceOf

_LOAD, _TURN = 0, 1


class LiveEngine(Engine):
    """As Engine, with more kinds of events: a load's end, a turn's, and time the core asked to be told of."""

    def __init__(self, scenario: Scenario, policy: AsLive) -> None:
        self._policy = policy
        self._happens: list[tuple[int, int, int]] = []  # (when, index of the slice, what ends)
        self._live: list[LiveSlice] = []
        super().__init__(scenario, policy)

    def tuning(self) -> Tuning:
        """What of the live core's parameters concerns a scenario."""
        ahead_ns = self._policy.ahead_ns
        return replace(
            PAPER, equal_bytes=EQUAL_BYTES, recent=0, gaps=True, keep=True, unseen_grace_ns=LIVE.unseen_grace_ns,
            overlap_load=self._policy.overlap_load, ahead_floor_ns=ahead_ns, ahead_limit_ns=ahead_ns,
        )  # fmt: skip

    def make_slice(self, index: int, g: SliceOf, held: dict[str, int]) -> LiveSlice:
        """See Engine."""
        estimates, noise, overlap_load = self.estimates, self.noise, self._policy.overlap_load
        made = LiveSlice(index, g, estimates, noise, self.copies, held, overlap_load=overlap_load)
        self._live.append(made)
        return made

    def step(self) -> bool:
        """Let the next event happen: ends first, then arrivals, then time; False if there is none."""
        arrivals, requests = self._arrivals, self.scenario.requests
        arrives = requests[arrivals[self._arrived]].at_ns if self._arrived < len(arrivals) else None
        ends = self._happens[0][0] if self._happens else None
        due = min((at for at in (ends, arrives) if at is not None), default=None)
        tick = self.core.next_timer() if self.core.waiting else None
        if tick is not None and (due is None or tick < due):
            self._tell(ev.Tick(tick))
        elif due is None:
            return False
        elif due == ends:
            now_ns, index, what = heapq.heappop(self._happens)
            self._end(now_ns, index, what)
        else:
            index = arrivals[self._arrived]
            self._arrived += 1
            self._arrive(index)
        return True

    def _end(self, now_ns: int, index: int, what: int) -> None:
        g = self._live[index]
        if what == _LOAD:
            load = g.loaded()
            held_bytes = self.estimates.held_bytes(load.model)
            self._tell(ev.Loaded(now_ns, g.spec.id, load.model, load.took_ns, held_bytes))
            self._go_on(g, now_ns)
        else:
            self._tell(ev.BindingEnded(now_ns, g.turned().bind.binding_id))
            self._go_on(g, now_ns)

    def _tell(self, event: ev.Event) -> None:
        said = self.core.handle(event)
        changed: dict[int, LiveSlice] = {}
        for one in said:
            assert isinstance(one, Bind | Keep)  # nobody is refused, and nothing is taken back
            g = self._live[self.slices[one.slice].index]
            if isinstance(one, Keep):
                g.demand = one.demand
            else:
                g.bind(one)
                changed[g.index] = g
        for g in changed.values():
            self._go_on(g, event.now_ns)

    def _go_on(self, g: LiveSlice, now_ns: int) -> None:
        """Begin what can begin on a slice, and tell the core."""
        work, load = g.turn(now_ns), g.load(now_ns)
        if load is not None:
            heapq.heappush(self._happens, (load.until_ns, g.index, _LOAD))
        if work is not None:
            self._works[int(work.bind.request.call_id)] = work
            heapq.heappush(self._happens, (work.finish_ns, g.index, _TURN))
            self._tell(ev.TurnStarted(now_ns, work.bind.binding_id, work.hit))
        if load is not None or work is not None:
            self._tell(ev.SliceReported(now_ns, g.report(self.specs[g.index])))
