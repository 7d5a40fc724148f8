"""Two readings of one scenario: the core driven in virtual time, and an independent simulation of the papers' rules.

The second is written from the rules alone, with plain lists and full scans; that both give the same
document for random scenarios is what says that indexes, estimates and foresight change nothing.
"""

from __future__ import annotations

import heapq
import itertools
import math
from dataclasses import dataclass, field

from proto.types.placing import Place
from proto.types.slices import SliceSpec
from scheduler.core import events as ev
from scheduler.core.core import SchedulerCore
from scheduler.core.instructions import Bind
from scheduler.core.policies.registry import make_policy
from scheduler.core.tuning import PAPER


@dataclass
class Scenario:
    slices: list[int]  # memory of each
    models: dict[str, tuple[int, int, int]]  # memory, load, infer
    requests: list[tuple[int, str, int, int]]  # at, model, real load, real infer
    policy: dict[str, object] = field(default_factory=lambda: {"name": "lalb"})


@dataclass
class Tables:
    models: dict[str, tuple[int, int, int]]

    def turn_ns(self, worker: str, gpcs: int, batch: int) -> int:
        return self.models[worker][2]

    def load_ns(self, worker: str) -> int:
        return self.models[worker][1]

    def gap_ns(self, worker: str) -> int:
        return 0

    def held_bytes(self, worker: str) -> int:
        return self.models[worker][0]


def specs(memories: list[int]) -> tuple[SliceSpec, ...]:
    return tuple(SliceSpec(f"g{i}", "n", i, 1, memory, "emulated") for i, memory in enumerate(memories))


Row = tuple[str, int, int, bool, bool, int]  # slice, start, finish, hit, false miss, skips


def with_core(scenario: Scenario) -> list[Row]:
    """Drive the core: it says where, this says when things really end."""
    numbers = itertools.count()
    core = SchedulerCore(
        make_policy(scenario.policy), Tables(scenario.models), PAPER, make_id=lambda: str(next(numbers))
    )
    core.handle(ev.NodeJoined(0, "n", specs(scenario.slices)))
    rows: dict[int, Row] = {}
    fifo: dict[str, list[Bind]] = {g.id: [] for g in core.state.slices}
    running: dict[str, tuple[int, Bind]] = {}

    def start(g: str, now: int) -> None:
        bind = fifo[g].pop(0)
        index = int(bind.request.call_id)
        _, _, load, infer = scenario.requests[index]
        assert bind.hit or not bind.local
        end = now + infer + (0 if bind.hit else load)
        rows[index] = (g, now, end, bind.hit, bind.false_miss, bind.skips)
        running[g] = (end, bind)

    def act(event: ev.Event) -> None:
        for bind in core.handle(event):
            assert isinstance(bind, Bind)
            fifo[bind.slice].append(bind)
            if bind.slice not in running:
                start(bind.slice, event.now_ns)

    order = {g.id: g.index for g in core.state.slices}
    arrivals = sorted(range(len(scenario.requests)), key=lambda i: (scenario.requests[i][0], i))
    while arrivals or running:
        g, (end, bind) = min(running.items(), key=lambda e: (e[1][0], order[e[0]]), default=("", (math.inf, None)))
        if not arrivals or end <= scenario.requests[arrivals[0]][0]:
            assert bind is not None
            del running[g]
            if fifo[g]:
                start(g, int(end))
            act(ev.BindingEnded(int(end), bind.binding_id))
        else:
            index = arrivals.pop(0)
            at, model, _, _ = scenario.requests[index]
            act(ev.Placed(at, "", Place(str(index), model)))
    assert core.waiting == 0
    assert not core.ledger.bound
    return [rows[i] for i in range(len(scenario.requests))]


def by_the_rules(scenario: Scenario) -> list[Row]:
    """The same, from the rules alone."""
    size = {m: v[0] for m, v in scenario.models.items()}
    load = {m: v[1] for m, v in scenario.models.items()}
    infer = {m: v[2] for m, v in scenario.models.items()}
    count = len(scenario.slices)
    lru: list[list[str]] = [[] for _ in range(count)]
    local: list[list[int]] = [[] for _ in range(count)]
    busy: list[tuple[int, int] | None] = [None] * count  # (request, estimated end)
    queue: list[int] = []
    skips = [0] * len(scenario.requests)
    rows: dict[int, Row] = {}
    ends: list[tuple[int, int, int]] = []
    model = [r[1] for r in scenario.requests]
    limit = scenario.policy.get("o3_limit", 25)

    def free(g: int) -> int:
        return scenario.slices[g] - sum(size[m] for m in lru[g])

    def start(r: int, g: int, now: int) -> None:
        m = model[r]
        hit = m in lru[g]
        false = not hit and any(m in lru[x] for x in range(count) if x != g)
        if hit:
            lru[g].remove(m)
        else:
            while free(g) < size[m]:
                lru[g].pop(0)
        lru[g].append(m)
        _, _, real_load, real_infer = scenario.requests[r]
        end = now + real_infer + (0 if hit else real_load)
        busy[g] = (r, now + infer[m] + (0 if hit else load[m]))
        rows[r] = (f"g{g}", now, end, hit, false, skips[r])
        heapq.heappush(ends, (end, g, r))

    def remaining(g: int, now: int) -> int:
        held = busy[g]
        return max(0, held[1] - now) if held else 0

    def place(r: int, now: int) -> bool:
        m = model[r]
        idle = [g for g in range(count) if busy[g] is None and scenario.slices[g] >= size[m]]
        best = None
        for g in range(count):
            if busy[g] is not None and m in lru[g]:
                finish = remaining(g, now) + sum(infer[model[x]] for x in local[g]) + infer[m]
                if best is None or finish < best[0]:
                    best = (finish, g)
        if best and (not idle or best[0] < load[m] + infer[m]):
            queue.remove(r)
            local[best[1]].append(r)
            return True
        if idle:
            queue.remove(r)
            start(r, min(idle, key=lambda g: (-free(g), g)), now)
            return True
        return False

    def once(now: int) -> bool:
        idle = [g for g in range(count) if busy[g] is None]
        if not queue or not idle:
            return False
        if scenario.policy["name"] == "lb":
            fitting = [g for g in idle if scenario.slices[g] >= size[model[queue[0]]]]
            if fitting:
                start(queue.pop(0), fitting[0], now)
            return bool(fitting)
        for position, r in enumerate(queue):
            holders = [g for g in idle if model[r] in lru[g]]
            if holders:
                for ahead in queue[:position]:
                    skips[ahead] += 1
                queue.remove(r)
                start(r, holders[0], now)
                return True
            if skips[r] >= limit:
                return place(r, now)
        return place(queue[0], now)

    arrivals = sorted(range(len(scenario.requests)), key=lambda i: (scenario.requests[i][0], i))
    while arrivals or ends:
        if ends and (not arrivals or ends[0][0] <= scenario.requests[arrivals[0]][0]):
            now, g, _ = heapq.heappop(ends)
            busy[g] = None
            if local[g]:
                start(local[g].pop(0), g, now)
        else:
            r = arrivals.pop(0)
            now = scenario.requests[r][0]
            queue.append(r)
        while once(now):
            pass
    return [rows[i] for i in range(len(scenario.requests))]
