"""A slice's own side, which live is the GPU manager's: what it holds, who waits for it, what it really takes.

The scheduler decides where; here a binding starts when the slice is free, loads if it must, and the
cache manager says who goes. The scheduler only foresees this, as it does live.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from cache_manager.core.victims import victims
from proto.types.slices import CachedWorker, WorkerStatus
from scheduler.core.instructions import Bind
from simulator.profiles import Noise, ScenarioEstimates
from simulator.scenario import EQUAL_BYTES, SliceOf


@dataclass(slots=True)
class Copies:
    """Where models are at this moment, and for how long they were anywhere (slices times nanoseconds)."""

    now: dict[str, int] = field(default_factory=dict)
    held_ns: dict[str, int] = field(default_factory=dict)

    def come(self, model: str, now_ns: int) -> None:
        """One more slice holds it."""
        self.now[model] = self.now.get(model, 0) + 1
        self.held_ns[model] = self.held_ns.get(model, 0) - now_ns

    def go(self, model: str, now_ns: int) -> None:
        """One slice less holds it."""
        self.now[model] -= 1
        self.held_ns[model] += now_ns

    def until(self, model: str, end_ns: int) -> int:
        """The sum over slices of the time that they have held it, from 0 to `end_ns`."""
        return self.held_ns.get(model, 0) + self.now.get(model, 0) * end_ns


@dataclass(slots=True)
class Stay:
    """A model on a slice, from the start of its load to its eviction; `to_ns` None is to the end."""

    model: str
    from_ns: int
    to_ns: int | None = None


@dataclass(slots=True)
class Work:
    """A request that runs: all that is known of it once it has started."""

    bind: Bind
    start_ns: int
    load_ns: int
    infer_ns: int
    hit: bool
    false_miss: bool

    @property
    def finish_ns(self) -> int:
        """When the slice is done with it."""
        return self.start_ns + self.load_ns + self.infer_ns


class SimulatedSlice:
    """One slice: at most one request at a time, the others in the order they were bound."""

    def __init__(
        self,
        index: int,
        spec: SliceOf,
        estimates: ScenarioEstimates,
        noise: Noise,
        copies: Copies,
        held: Mapping[str, int],
    ) -> None:
        self.index = index
        self.spec = spec
        self.running: Work | None = None
        self.waiting: deque[Bind] = deque()
        self._estimates = estimates
        self._noise = noise
        self._copies = copies
        self._lru: dict[str, CachedWorker] = {}  # least recently used first
        self.stays: list[Stay] = []
        self._staying: dict[str, Stay] = {}
        self.free_bytes = spec.memory_bytes
        for model, size in held.items():
            self._hold(model, size, 0)

    @property
    def held(self) -> list[str]:
        """The models on it, least recently used first."""
        return list(self._lru)

    def take(self, bind: Bind, now_ns: int) -> Work | None:
        """A request was bound here; the work that starts with it, None if it has to wait."""
        self.waiting.append(bind)
        return self._next(now_ns) if self.running is None else None

    def done(self, now_ns: int) -> tuple[Work, Work | None]:
        """The running request has finished: (it, the work that starts instead)."""
        assert self.running is not None
        finished, self.running = self.running, None
        return finished, self._next(now_ns) if self.waiting else None

    def _next(self, now_ns: int) -> Work:
        bind = self.waiting.popleft()
        model, batch, request = bind.request.worker, bind.request.batch, int(bind.request.call_id)
        hit = model in self._lru
        false_miss = not hit and self._copies.now.get(model, 0) > 0
        load_ns = 0
        if hit:
            self._lru[model] = self._lru.pop(model)
        else:
            self._load(model, now_ns)
            load_ns = self._noise.load_ns(request, self._estimates.load_ns(model))
        infer_ns = self._noise.infer_ns(request, self._estimates.turn_ns(model, self.spec.gpcs, batch))
        self.running = Work(bind, now_ns, load_ns, infer_ns, hit, false_miss)
        return self.running

    def _load(self, model: str, now_ns: int) -> None:
        needed = self._estimates.held_bytes(model)
        answer = victims(self.spec.id, list(self._lru.values()), self.free_bytes + EQUAL_BYTES, model, needed)
        self._evict(answer.keys, now_ns)
        self._hold(model, needed, now_ns)

    def _evict(self, models: Iterable[str], now_ns: int) -> None:
        for key in models:
            self.free_bytes += self._lru.pop(key).held_bytes
            self._copies.go(key, now_ns)
            self._staying.pop(key).to_ns = now_ns

    def _hold(self, model: str, size: int, now_ns: int) -> None:
        self._lru[model] = CachedWorker(model, WorkerStatus.READY, size, now_ns)
        self.free_bytes -= size
        self._copies.come(model, now_ns)
        stay = self._staying[model] = Stay(model, now_ns)
        self.stays.append(stay)
