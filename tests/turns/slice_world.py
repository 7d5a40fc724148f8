"""A slice in virtual time: processes, cache manager and store that answer after a while, none of them real."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable
from dataclasses import dataclass, field

from gpu_manager.core import events as ev
from gpu_manager.core import instructions as ins
from gpu_manager.core.slice import SliceCore
from proto.types.errors import SlicewiseError
from proto.types.slices import SliceSpec

MS = 1_000_000


@dataclass
class World:
    """`sizes`: true bytes a model needs in a worker; `loads_ms`, `calls_ms`: how long things take, per digest."""

    budget: int = 100
    sizes: dict[str, int] = field(default_factory=dict)
    load_ms: int = 100
    call_ms: int = 10
    call_bytes: dict[str, int] = field(default_factory=dict)  # what a call of a model takes beside what is held
    measures: bool = True  # whether the most that a worker has held is known after a call
    stateful: frozenset[str] = frozenset()
    overhead: int = 0
    max_waiting: int = 1024

    def __post_init__(self) -> None:
        spec = SliceSpec("n-s0", "n", 0, 1, self.budget, "cpu")
        self.core = SliceCore(spec, self.overhead, self.max_waiting)
        self.now = MS
        self._heap: list[tuple[int, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self.alive: dict[str, tuple[int, int]] = {}  # worker -> (incarnation, bytes)
        self.holds: dict[str, list[str]] = {}
        self.running: dict[int, str] = {}
        self.limits: dict[str, int] = {}
        self.frozen: set[str] = set()
        self.log: list[tuple[int, ins.Instruction]] = []
        self.answers: dict[int, ins.Answer] = {}
        self._ids = itertools.count(1)

    # what tests do
    def prepare(
        self, binding: str, worker: str, *models: str, usual: ev.Usual | None = None, expires_ms: int = 10**6
    ) -> None:
        needs = tuple(ev.Need(model, self.sizes.get(model, 10)) for model in models)
        self.tell(ev.Prepared(binding, worker, self.now + expires_ms * MS, needs, usual or ev.Usual(), 0))

    def call(self, binding: str, model: str, deadline_ms: int = 10**5) -> int:
        number = next(self._ids)
        need = ev.Need(model, self.sizes.get(model, 10))
        self.tell(ev.CallArrived(number, binding, need, self.now + deadline_ms * MS))
        return number

    def end(self, binding: str) -> None:
        self.tell(ev.BindingOver(binding))

    def die(self, worker: str) -> None:
        incarnation, _ = self.alive.pop(worker)
        self.holds.pop(worker, None)
        self.limits.pop(worker, None)
        self.tell(ev.WorkerGone(worker, incarnation, "killed by signal 9"))

    def run(self, ms: float = 10**5) -> None:
        """Let time pass, by events and the core's own wakeups, for at most `ms`."""
        until = self.now + int(ms * MS)
        while True:
            wake = self.core.wakeup(self.now)
            first = self._heap[0][0] if self._heap else None
            times = [t for t in (wake, first) if t is not None]
            if not times or min(times) > until:
                self.now = max(self.now, until if times else self.now)
                return
            self.now = max(self.now, min(times))
            if first is not None and first <= self.now:
                heapq.heappop(self._heap)[2]()
            else:
                self.tell(ev.Tick())
                assert self.core.wakeup(self.now) != self.now, "the core asks to be woken at once, again and again"

    def tell(self, event: ev.Event) -> None:
        for instruction in self.core.handle(event, self.now):
            self.log.append((self.now, instruction))
            self._obey(instruction)
        self.check()

    def check(self) -> None:
        board = self.core.board
        assert board.free_bytes() >= 0, "above the budget"
        assert sum(size for _, size in self.alive.values()) <= self.budget, "processes hold more than the budget"
        assert sum(self.limits.values()) <= self.budget, "workers may hold more than the budget"
        assert len(self.running) <= 1, "two calls run at once"
        assert all(self.holds.get(worker) is not None for worker in self.running.values())

    def kinds(self, kind: type) -> list[ins.Instruction]:
        return [instruction for _, instruction in self.log if isinstance(instruction, kind)]

    def codes(self) -> dict[int, str]:
        return {n: a.failure.code if a.failure else "ok" for n, a in self.answers.items()}

    # what the node would do
    def later(self, ms: float, action: Callable[[], None]) -> None:
        heapq.heappush(self._heap, (self.now + int(ms * MS), next(self._order), action))

    def _obey(self, order: ins.Instruction) -> None:
        match order:
            case ins.Fetch():
                self.later(1, lambda: self.tell(ev.Fetched(order.worker, order.digests)))
            case ins.AskVictims():
                self.later(1, lambda: self._name_victims(order))
            case ins.Load():
                if order.fresh:
                    assert order.worker not in self.alive, "two processes of one worker"
                    self.alive[order.worker] = (order.incarnation, 0)
                    self.holds[order.worker] = []
                self.later(self.load_ms, lambda: self._load(order))
                self.limits[order.worker] = order.limit_bytes
            case ins.Limit():
                assert order.worker in self.alive
                self.limits[order.worker] = order.limit_bytes
            case ins.Run():
                assert order.worker in self.alive
                call = self.core.board.calls[order.call]
                assert call.digest in self.holds[order.worker], "runs on a worker without its model"
                self.running[order.call] = order.worker
                if order.worker not in self.frozen:
                    self.later(self.call_ms, lambda: self._finish(order, call.digest))
            case ins.Reset():
                self.later(1, lambda: self.tell(ev.ResetDone(order.worker, order.incarnation)))
            case ins.Kill():
                assert order.worker not in self.running.values() or not order.evicted, "evicted in mid-call"
                self.later(2, lambda: self._gone(order))
            case ins.Answer():
                assert order.call not in self.answers, "answered twice"
                assert min(order.queue_ns, order.load_ns, order.infer_ns) >= 0
                self.answers[order.call] = order
                if order.failure is not None:
                    self.running.pop(order.call, None)

    def _name_victims(self, order: ins.AskVictims) -> None:
        victims, room = [], self.core.report(0).free_bytes
        for worker in self.core.report(0).workers:
            if room >= order.needed_bytes:
                break
            if worker.key not in order.never:
                victims.append(worker.key)
                room += worker.held_bytes
        failure = None if room >= order.needed_bytes else SlicewiseError("no_slice", "There is no room.")
        self.tell(ev.VictimsNamed(order.worker, tuple(victims), failure))

    def _load(self, order: ins.Load) -> None:
        if self.alive.get(order.worker, (0, 0))[0] != order.incarnation:
            return
        held = self.alive[order.worker][1] + self.sizes.get(order.digest, 10)
        if held > order.limit_bytes:
            failure = SlicewiseError("over_limit", "too large")
            self.tell(ev.LoadFailed(order.worker, order.incarnation, order.digest, failure, held))
            return
        self.alive[order.worker] = (order.incarnation, held)
        self.holds[order.worker].append(order.digest)
        self.tell(ev.ModelLoaded(order.worker, order.incarnation, order.digest, held))

    def _finish(self, order: ins.Run, digest: str) -> None:
        if self.running.pop(order.call, None) is None:
            return
        peak = self.alive[order.worker][1] + self.call_bytes.get(digest, 0)
        if peak > self.limits[order.worker]:
            failure = SlicewiseError("overrun", "too large")
            self.tell(ev.CallDone(order.call, digest in self.stateful, failure, peak))
            return
        self.tell(ev.CallDone(order.call, state=digest in self.stateful, peak_bytes=peak if self.measures else 0))

    def _gone(self, order: ins.Kill) -> None:
        if self.alive.get(order.worker, (0, 0))[0] == order.incarnation:
            self.alive.pop(order.worker)
            self.holds.pop(order.worker)
            self.limits.pop(order.worker, None)
            for number in [n for n, w in self.running.items() if w == order.worker]:
                del self.running[number]
            self.tell(ev.WorkerGone(order.worker, order.incarnation, "killed by signal 9"))
