"""One slice as the scheduler knows it: what it holds, what is bound to it, when it will be free.

The truth is with the GPU manager and comes as reports; between two reports the core foresees what its
own bindings do there (a worker comes, the least recently used go), and the next report that shows the
worker replaces what was foreseen.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType

from proto.types.placing import Demand
from proto.types.slices import SHARED_POOL, SliceSpec, SliceState, WorkerStatus
from scheduler.core.requests import Request
from scheduler.core.tuning import Tuning

_NO_DEMAND = Demand()


class Stage(Enum):
    """How far a binding is at its slice."""

    WAITING = "waiting"  # no turn yet
    TURN = "turn"  # occupies the slice
    PASSED = "passed"  # gave its turn back; may take another


@dataclass(slots=True, eq=False)
class Bound:
    """A binding that has not ended. `turn_ns`, `ready_ns` and `due_ns` are estimates made when it was bound:
    how long it occupies the slice, when its Infer comes, when it should be done."""

    id: str
    request: Request
    slice: Slice
    hit: bool
    bound_ns: int
    load_ns: int
    turn_ns: int
    ready_ns: int
    due_ns: int = 0
    stage: Stage = Stage.WAITING
    started_ns: int = 0
    arrived: bool = False  # its Infer waits at the slice
    loads: bool = False  # its worker's load is not over, as far as is known
    reported: bool = False  # a report has shown it
    began: bool = False  # it has had a turn
    elsewhere: bool = False  # another slice held the worker when it was bound
    missing_ns: int = -1  # since when reports do not show it, or not the turn it has; -1: they do
    adopted: bool = False  # found in a report, made by an earlier scheduler
    orphaned_ns: int = -1  # since when it has had no living owner; -1: it has one


class Holders:
    """Which slices hold a worker: worker key -> slices by index."""

    def __init__(self) -> None:
        self._of: dict[str, dict[str, Slice]] = {}

    def of(self, worker: str) -> list[Slice]:
        """The slices that hold it, lowest index first."""
        held = self._of.get(worker)
        if not held:
            return []
        return sorted(held.values(), key=lambda g: g.index) if len(held) > 1 else list(held.values())

    def elsewhere(self, worker: str, g: Slice) -> bool:
        """Whether a slice other than `g` holds it."""
        held = self._of.get(worker)
        return held is not None and len(held) > (g.id in held)

    def add(self, worker: str, g: Slice) -> None:
        """`g` holds `worker` now."""
        self._of.setdefault(worker, {})[g.id] = g

    def discard(self, worker: str, g: Slice) -> None:
        """`g` no longer holds `worker`."""
        held = self._of.get(worker)
        if held is not None:
            held.pop(g.id, None)
            if not held:
                del self._of[worker]


@dataclass(slots=True)
class Backlog:
    """What the first `counted` bindings of a local queue take, loads included, and the workers that they load."""

    counted: int = 0
    ns: int = 0
    coming: set[str] = field(default_factory=set)


@dataclass(slots=True)
class _Foreseen:
    worker: str
    held_bytes: int
    victims: tuple[str, ...]
    since_ns: int


@dataclass(slots=True, eq=False)
class Slice:
    """See the module. `held` maps worker key -> bytes in LRU order, least recently used first."""

    spec: SliceSpec
    index: int
    tuning: Tuning
    holders: Holders
    pool: str = SHARED_POOL
    moving_to: str = ""  # the pool it drains for, "" if it stays
    lost_ns: int = -1  # since when it is lost; -1: it is there
    given_up: bool = False  # lost for so long that its bindings were taken back
    stalled: bool = False
    heard_ns: int = 0
    sequence: int = -1
    handover_ns: float = 0.0
    held: dict[str, int] = field(default_factory=dict)
    used_bytes: int = 0
    loading: frozenset[str] = frozenset()
    exclusive: frozenset[str] = frozenset()  # workers that an invocation has changed, and has to itself until it ends
    running: Bound | None = None
    waiting: list[Bound] = field(default_factory=list)  # in the order they were bound: the local queue
    bound: dict[str, Bound] = field(default_factory=dict)  # all that have not ended, passed ones too
    busy_ns: int = 0  # turns so far
    backlog: Backlog = field(default_factory=Backlog)  # begun anew when the queue is not only longer, or memory changed
    _foreseen: list[_Foreseen] = field(default_factory=list)

    @property
    def id(self) -> str:
        """The slice's name."""
        return self.spec.id

    @property
    def open(self) -> bool:
        """Whether anything may be bound to it now."""
        return self.lost_ns < 0 and not self.stalled

    @property
    def free_bytes(self) -> int:
        """Memory that is free without evicting anything."""
        return self.spec.memory_bytes - self.used_bytes

    # ------------------------------------------------------------------ time

    def free_at(self, now_ns: int, beside_loads: bool = False) -> int:
        """When it should have done all that is bound to it; `now_ns` if it should have already.

        `beside_loads` leaves out what still loads: when a worker that is there could have its turn.
        """
        coming = self._coming() if beside_loads else frozenset()
        at, run = self.turn_until(now_ns), self.running
        for b in self.waiting:
            if b.request.worker in coming:
                continue
            if not self.tuning.gaps:
                at += b.turn_ns
            elif b.loads or b.request.worker in self.loading:
                at = max(at, self._loaded_at(b, now_ns)) + b.turn_ns
            elif b.arrived:
                at += b.turn_ns
            elif now_ns < b.due_ns:
                at = max(at, b.ready_ns) + b.turn_ns if run is not None else max(at, b.due_ns)
        return at

    def turn_until(self, now_ns: int) -> int:
        """When the turn that runs here should end; `now_ns` if none runs."""
        if self.running is None:
            return now_ns
        end = self.running.started_ns + self.running.turn_ns
        if end < now_ns:  # an overrun: what has run beyond the estimate counts again
            return now_ns + (now_ns - end) if self.tuning.raise_overruns else now_ns
        return end

    def remaining(self, now_ns: int, beside_loads: bool = False) -> int:
        """Nanoseconds until `free_at`."""
        return self.free_at(now_ns, beside_loads) - now_ns

    def runs_beside_loads(self, worker: str) -> bool:
        """Whether a turn of `worker` need not wait for a load here: it is there, and loads leave turns free."""
        return self.tuning.overlap_load and worker in self.held and not self.loads(worker)

    def loads(self, worker: str) -> bool:
        """Whether it loads here, as reported or as bound."""
        return worker in self._coming()

    def _coming(self) -> frozenset[str]:
        bound = {b.request.worker for b in self.waiting if b.loads}
        return self.loading | bound if bound else self.loading

    def _loaded_at(self, b: Bound, now_ns: int) -> int:
        if b.ready_ns >= now_ns or not self.tuning.raise_overruns:
            return b.ready_ns
        return now_ns + (now_ns - b.ready_ns)

    def loads_until(self, worker: str, now_ns: int) -> int:
        """When the load of `worker` that is under way here will be over; without one, when it could begin.

        Loads run one at a time. `now_ns` if nothing loads.
        """
        at = now_ns
        for b in self.waiting:
            if b.loads:
                at = max(at, self._loaded_at(b, now_ns))
                if b.request.worker == worker:
                    break
        return at

    def load_over(self, worker: str) -> None:
        """The worker can be called, and what reports say of it from now on is true."""
        self.loading -= {worker}
        self._foreseen = [f for f in self._foreseen if f.worker != worker]
        for b in self.waiting:
            if b.request.worker == worker:
                b.loads = False

    def ahead_ns(self, gap_ns: int) -> int:
        """How long before it is free the next binding should be made, so that its Infer already waits."""
        limit = self.tuning.ahead_limit_ns
        return min(limit, max(self.tuning.ahead_floor_ns, int(self.handover_ns)) + gap_ns) if limit else 0

    # ------------------------------------------------------------------ memory

    def victims(self, needed_bytes: int, demand: Mapping[str, Demand]) -> tuple[str, ...]:
        """Who would go for a load of `needed_bytes`: the least in demand, least recently used first, until it fits."""
        free, gone = self.free_bytes + self.tuning.equal_bytes, []
        turn = self.running.request.worker if self.running is not None else ""
        for worker in (
            sorted(self.held, key=lambda worker: demand.get(worker, _NO_DEMAND).rank) if demand else self.held
        ):
            if free >= needed_bytes:
                break
            if worker == turn or worker in self.loading:
                continue
            free += self.held[worker]
            gone.append(worker)
        return tuple(gone)

    def foresee(
        self, worker: str, held_bytes: int, now_ns: int, demand: Mapping[str, Demand] = MappingProxyType({})
    ) -> tuple[str, ...]:
        """A miss was bound: its worker comes, its victims (returned) go."""
        victims = self.victims(held_bytes, demand)
        self._foreseen.append(_Foreseen(worker, held_bytes, victims, now_ns))
        for victim in victims:
            self._drop(victim)
        self._hold(worker, held_bytes)
        return victims

    def unforesee(self, worker: str) -> None:
        """The load did not come to be."""
        if any(f.worker == worker for f in self._foreseen):
            self._foreseen = [f for f in self._foreseen if f.worker != worker]
            self._drop(worker)

    def touch(self, worker: str) -> None:
        """Its worker was used just now."""
        held_bytes = self.held.pop(worker, None)
        if held_bytes is not None:
            self.held[worker] = held_bytes

    def take_report(self, state: SliceState, now_ns: int, foresight_ns: int) -> None:
        """Replace what is known of the memory by what the GPU manager says, but for loads it has not begun."""
        reported = {worker.key: worker.held_bytes for worker in state.workers}
        self.loading = frozenset(w.key for w in state.workers if w.status is WorkerStatus.LOADING)
        self.exclusive = frozenset(w.key for w in state.workers if w.exclusive_to)
        for b in self.waiting:
            b.loads = b.loads and (b.request.worker not in reported or b.request.worker in self.loading)
        self._foreseen = [f for f in self._foreseen if f.worker not in reported and now_ns - f.since_ns < foresight_ns]
        for f in self._foreseen:
            for victim in f.victims:
                reported.pop(victim, None)
            reported[f.worker] = f.held_bytes
        for worker in [w for w in self.held if w not in reported]:
            self._drop(worker)
        for worker in reported:
            if worker not in self.held:
                self.holders.add(worker, self)
        self.held, self.backlog = reported, Backlog()
        self.used_bytes = sum(reported.values())

    def clear(self) -> None:
        """Nothing is held any more."""
        for worker in list(self.held):
            self._drop(worker)
        self._foreseen.clear()
        self.loading = frozenset()

    def hold(self, worker: str, held_bytes: int) -> None:
        """The worker is there, as a scenario's preloaded models are."""
        self._hold(worker, held_bytes)

    def _hold(self, worker: str, held_bytes: int) -> None:
        self._drop(worker)
        self.backlog = Backlog()
        self.held[worker] = held_bytes
        self.used_bytes += held_bytes
        self.holders.add(worker, self)

    def _drop(self, worker: str) -> None:
        held_bytes = self.held.pop(worker, None)
        if held_bytes is not None:
            self.backlog = Backlog()
            self.used_bytes -= held_bytes
            self.holders.discard(worker, self)


def status_of(g: Slice) -> str:
    """lost, stalled, busy, loading or idle."""
    if g.lost_ns >= 0:
        return "lost"
    if g.running is not None:
        return "stalled" if g.stalled else "busy"
    return "loading" if g.loading else "idle"
