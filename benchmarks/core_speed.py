"""How many bindings a second the scheduler's core decides, by policy, slices and requests that wait.

Every slice is busy, or could be, and the same number of requests is there all the time: whenever a binding ends, a new
one comes. Only processor time inside the core counts. Popularity is Zipf(1), 200 models of which each slice holds four.
"""

from __future__ import annotations

import argparse
import heapq
import itertools
import random
import time
from collections import deque
from typing import Any

from benchmarks.report import write
from proto.types.placing import Place
from proto.types.slices import SliceSpec
from scheduler.core import events as ev
from scheduler.core.core import SchedulerCore
from scheduler.core.instructions import Bind
from scheduler.core.policies.registry import make_policy
from scheduler.core.tuning import PAPER

POLICIES = ("lb", "lalb", "elsa")
SLICES = (12, 100, 1000)
QUEUED = (10, 100, 1000, 10_000)
MODELS = 200
MS = 1_000_000
GPCS = (1, 2, 3, 7)


class Known:
    """Estimates of equal models: 1 GB, 200 ms to load, 50 ms on one GPC and less on more."""

    def turn_ns(self, worker: str, gpcs: int, batch: int) -> int:
        """Inference time."""
        return 50 * MS // gpcs

    def load_ns(self, worker: str) -> int:
        """Load time."""
        return 200 * MS

    def gap_ns(self, worker: str) -> int:
        """None."""
        return 0

    def held_bytes(self, worker: str) -> int:
        """Memory."""
        return 10**9


class Bench:
    """A core in the steady state that the module describes."""

    def __init__(self, policy: str, slices: int, queued: int) -> None:
        numbers = itertools.count()
        self.core = SchedulerCore(make_policy({"name": policy}), Known(), PAPER, make_id=lambda: str(next(numbers)))
        specs = tuple(SliceSpec(f"g{i}", "n", i, GPCS[i % len(GPCS)], 4 * 10**9, "mig") for i in range(slices))
        self.core.handle(ev.NodeJoined(0, "n", specs))
        self._random = random.Random(1)
        self._weights = list(itertools.accumulate(1 / rank for rank in range(1, MODELS + 1)))
        self._fifo: dict[str, deque[Bind]] = {spec.id: deque() for spec in specs}
        self._gpcs = {spec.id: spec.gpcs for spec in specs}
        self._ends: list[tuple[int, str]] = []
        self._calls = itertools.count()
        self.inside_s, self.bound = 0.0, 0
        for _ in range(slices + queued):
            self.arrive(0)

    def tell(self, event: ev.Event) -> None:
        """One event; what it decides is carried out."""
        began = time.thread_time()
        said = self.core.handle(event)
        self.inside_s += time.thread_time() - began
        for bind in said:
            assert isinstance(bind, Bind)
            self.bound += 1
            self._fifo[bind.slice].append(bind)
            if len(self._fifo[bind.slice]) == 1:
                self._start(bind, event.now_ns)

    def _start(self, bind: Bind, now_ns: int) -> None:
        took_ns = 50 * MS // self._gpcs[bind.slice] + (0 if bind.hit else 200 * MS)
        heapq.heappush(self._ends, (now_ns + took_ns, bind.slice))

    def arrive(self, now_ns: int) -> None:
        """A request comes."""
        (model,) = self._random.choices(range(MODELS), cum_weights=self._weights)
        self.tell(ev.Placed(now_ns, "", Place(str(next(self._calls)), f"m{model}", 1, 500 * MS)))

    def turn_over(self) -> None:
        """A request ends, and another comes."""
        now_ns, slice_id = heapq.heappop(self._ends)
        ended = self._fifo[slice_id].popleft()
        if self._fifo[slice_id]:
            self._start(self._fifo[slice_id][0], now_ns)
        self.tell(ev.BindingEnded(now_ns, ended.binding_id))
        self.arrive(now_ns)

    def measure(self, seconds: float) -> float:
        """Bindings a second of the core's time, over at least `seconds` of it."""
        for _ in range(100):
            self.turn_over()
        self.inside_s, self.bound = 0.0, 0
        while self.inside_s < seconds:
            self.turn_over()
        return self.bound / self.inside_s


def main() -> None:
    """Measure every combination."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--seconds", type=float, default=1.0, help="of the core's time, for each combination")
    seconds = arguments.parse_args().seconds
    rows: list[dict[str, Any]] = []
    for policy, slices, queued in itertools.product(POLICIES, SLICES, QUEUED):
        rate = Bench(policy, slices, queued).measure(seconds)
        rows.append({"policy": policy, "slices": slices, "queued": queued, "decisions_per_s": round(rate)})
        print(rows[-1], flush=True)
    write(
        "core-speed",
        "Speed of the scheduler's core",
        rows,
        "One thread, its processor time, by the papers' rules. A decision is one binding with all that leads to it:\n"
        "the end of another binding, the arrival of a request, the policy. `queued` requests are there beyond one a\n"
        "slice; under `elsa`, and partly under `lalb`, they are bound already and wait at their slices.",
    )


if __name__ == "__main__":
    main()
