"""A slice under the platform's rules: loads begin with the binding, and may run beside turns of what is there.

One load at a time, one turn at a time. Whoever's worker is ready first takes the turn, in the order they were bound.
Never victims are workers in load or turn, nor, where loads run beside turns, ready ones that bindings wait for here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cache_manager.core.victims import victims
from proto.types.errors import SlicewiseError
from proto.types.placing import Demand
from proto.types.slices import CachedWorker, SliceSpec, SliceState, SliceStatus, WorkerStatus
from scheduler.core.instructions import Bind
from simulator.node import Copies, SimulatedSlice, Work
from simulator.profiles import Noise, ScenarioEstimates
from simulator.scenario import EQUAL_BYTES, SliceOf


@dataclass(slots=True)
class LiveWork(Work):
    """Between its load and its inference a request may wait for another's turn."""

    turn_ns: int = -1  # when its turn began

    @property
    def finish_ns(self) -> int:
        """When its turn is over; as early as can be while it has none."""
        began_ns = self.turn_ns if self.turn_ns >= 0 else self.start_ns + self.load_ns
        return began_ns + self.infer_ns


@dataclass(frozen=True, slots=True)
class Loading:
    """The load under way: until when, and whose binding began it."""

    model: str
    took_ns: int
    until_ns: int


class LiveSlice(SimulatedSlice):
    """`overlap_load`: a load may run beside another worker's turn."""

    def __init__(
        self,
        index: int,
        spec: SliceOf,
        estimates: ScenarioEstimates,
        noise: Noise,
        copies: Copies,
        held: Mapping[str, int],
        *,
        overlap_load: bool,
    ) -> None:
        super().__init__(index, spec, estimates, noise, copies, held)
        self.overlap_load = overlap_load
        self.loading: Loading | None = None
        self.demand: Mapping[str, Demand] = {}  # as the scheduler told it last
        self._begun: dict[str, LiveWork] = {}  # by binding: those whose load has begun
        self._sequence = 0

    def bind(self, bind: Bind) -> None:
        """A request was bound here; `load` and `turn` say what begins with it."""
        self.waiting.append(bind)

    # ------------------------------------------------------------------ loads

    def load(self, now_ns: int) -> Loading | None:
        """Begin the next load, if one is due and there is room for it now."""
        if self.loading is not None or (self.running is not None and not self.overlap_load):
            return None
        for bind in self.waiting:
            model = bind.request.worker
            if model not in self._lru:
                return self._begin_load(bind, now_ns)
            if not self.overlap_load:
                return None  # it is ready, and comes first
        return None

    def _begin_load(self, bind: Bind, now_ns: int) -> Loading | None:
        model, request = bind.request.worker, int(bind.request.call_id)
        false_miss = self._copies.now.get(model, 0) > 0
        needed = self._estimates.held_bytes(model)
        never = set() if self.running is None else {self.running.bind.request.worker}
        if self.overlap_load:
            never |= {other.request.worker for other in self.waiting if other.request.worker in self._lru}
        lru, free = list(self._lru.values()), self.free_bytes + EQUAL_BYTES
        try:
            answer = victims(self.spec.id, lru, free, model, needed, never, self.demand)
        except SlicewiseError:  # not now: those who may not go have their turns first
            return None
        self._evict(answer.keys, now_ns)
        self._hold(model, needed, now_ns)
        load_ns = self._noise.load_ns(request, self._estimates.load_ns(model))
        self._begun[bind.binding_id] = LiveWork(bind, now_ns, load_ns, 0, False, false_miss)
        self.loading = Loading(model, load_ns, now_ns + load_ns)
        return self.loading

    def loaded(self) -> Loading:
        """The load is over."""
        assert self.loading is not None
        over, self.loading = self.loading, None
        return over

    # ------------------------------------------------------------------ turns

    def turn(self, now_ns: int) -> Work | None:
        """Begin the next turn, if somebody can have it."""
        if self.running is not None or (self.loading is not None and not self.overlap_load):
            return None
        coming = self.loading.model if self.loading is not None else ""
        bind = next((b for b in self.waiting if b.request.worker in self._lru and b.request.worker != coming), None)
        if bind is None or (not self.overlap_load and bind is not self.waiting[0]):
            return None
        self.waiting.remove(bind)
        model, request = bind.request.worker, int(bind.request.call_id)
        work = self._begun.pop(bind.binding_id, None) or LiveWork(bind, now_ns, 0, 0, True, False)
        work.turn_ns = now_ns
        work.infer_ns = self._noise.infer_ns(
            request, self._estimates.turn_ns(model, self.spec.gpcs, bind.request.batch)
        )
        self._lru[model] = self._lru.pop(model)
        self.running = work
        return work

    def turned(self) -> Work:
        """The turn is over."""
        assert self.running is not None
        finished, self.running = self.running, None
        return finished

    # ------------------------------------------------------------------ what others are told

    def report(self, spec: SliceSpec) -> SliceState:
        """The slice as a GPU manager would report it."""
        self._sequence += 1
        coming = self.loading.model if self.loading is not None else ""
        turn = self.running.bind if self.running is not None else None
        bound = tuple(b.binding_id for b in self.waiting)
        workers = tuple(
            CachedWorker(model, _status(model, coming, turn), worker.held_bytes, 0)
            for model, worker in self._lru.items()
        )
        return SliceState(
            spec, self._sequence, "", SliceStatus.BUSY if turn else SliceStatus.IDLE, self.free_bytes, workers,
            bound + ((turn.binding_id,) if turn else ()), turn.binding_id if turn else "", 0,
            tuple(b.binding_id for b in self.waiting if b.request.worker in self._lru),
        )  # fmt: skip


def _status(model: str, coming: str, turn: Bind | None) -> WorkerStatus:
    if model == coming:
        return WorkerStatus.LOADING
    return WorkerStatus.TURN if turn is not None and turn.request.worker == model else WorkerStatus.READY
