"""What a policy sees: the queue, the slices, the estimates, and the papers' terms over them."""

from __future__ import annotations

from operator import attrgetter

from proto.types.pools import reserved_for
from proto.types.slices import SHARED_POOL
from scheduler.core.estimates import Estimates
from scheduler.core.requests import GlobalQueue, Request
from scheduler.core.slices import Backlog, Holders, Slice
from scheduler.core.tuning import Tuning


class State:
    """`slices` are ordered by index, the last tie-breaker everywhere; `now_ns` is the current event's time."""

    def __init__(self, estimates: Estimates, tuning: Tuning) -> None:
        self.estimates = estimates
        self.tuning = tuning
        self.now_ns = 0
        self.queue = GlobalQueue()
        self.slices: list[Slice] = []
        self.by_id: dict[str, Slice] = {}
        self.holders = Holders()
        self.at_home: frozenset[str] = frozenset()  # functions with slices of their own that are there
        self.by_size: list[list[Slice]] = []  # as `slices`, by GPCs, fewest first
        self._empty: dict[str, Slice] = {}  # slices that have nothing to do
        self._empty_line: list[Slice] | None = None  # the same by index, once asked for
        self._only_empty_idle = not tuning.gaps and not tuning.ahead_limit_ns

    # ------------------------------------------------------------------ what others change

    def regroup(self) -> None:
        """Slices came, went or moved."""
        sizes = sorted({g.spec.gpcs for g in self.slices})
        self.by_size = [[g for g in self.slices if g.spec.gpcs == size] for size in sizes]
        self._empty = {g.id: g for g in self.slices if g.running is None and not g.waiting}
        self._empty_line = None

    def occupied(self, g: Slice, *, longer: bool = False) -> None:
        """What runs or waits on `g` is not what it was; `longer`: one more waits and nothing else changed."""
        if not longer:
            g.backlog = Backlog()
        empty = g.running is None and not g.waiting
        if empty == (g.id in self._empty):
            return
        if not empty:
            del self._empty[g.id]
        elif g.id in self.by_id:
            self._empty[g.id] = g
        self._empty_line = None

    # ------------------------------------------------------------------ who may go where

    def serves(self, g: Slice, worker: str) -> bool:
        """Whether the slice's pool, and the one it drains for, is for this worker's function."""
        if g.pool == SHARED_POOL and not self.at_home and not g.moving_to:
            return True
        function = worker.rpartition("@")[0]
        return self._in(g.pool, function) and (not g.moving_to or self._in(g.moving_to, function))

    def _in(self, pool: str, function: str) -> bool:
        return function not in self.at_home if pool == SHARED_POOL else pool == reserved_for(function)

    def may(self, g: Slice, r: Request) -> bool:
        """Whether `r` may be bound to `g` at all now.

        A slice on which it failed, or whose worker another invocation has to itself for as long as that lasts, is
        avoided while another would do.
        """
        if not g.open or not self.serves(g, r.worker):
            return False
        return self._free_to(g, r) or not self._elsewhere(r)

    def _free_to(self, g: Slice, r: Request) -> bool:
        return g.id not in r.avoid and r.worker not in g.exclusive

    def fits(self, g: Slice, r: Request) -> bool:
        """Whether the worker fits the empty slice."""
        return self.estimates.held_bytes(r.worker) <= g.spec.memory_bytes + self.tuning.equal_bytes

    def _elsewhere(self, r: Request) -> bool:
        return any(g.open and self._free_to(g, r) and self.serves(g, r.worker) and self.fits(g, r) for g in self.slices)

    # ------------------------------------------------------------------ idle and busy

    def maybe_idle(self) -> list[Slice]:
        """All slices that can count as idle for somebody, lowest index first."""
        if not self._only_empty_idle:
            return self.slices
        if self._empty_line is None:
            self._empty_line = sorted(self._empty.values(), key=attrgetter("index"))
        return self._empty_line

    def idle(self, g: Slice, r: Request) -> bool:
        """Whether `g` counts as idle for `r`: nothing to do, or (live) nothing once r's first call would come."""
        return self.may(g, r) and self._idle(g, r)

    def _idle(self, g: Slice, r: Request) -> bool:
        if g.running is None and not g.waiting:
            return True
        if not self.tuning.ahead_limit_ns:
            free = g.running is None or (self.tuning.overlap_load and r.worker not in g.held)  # a load needs no turn
            return free and self.tuning.gaps and self.remaining(g, r.worker) <= 0
        return self.remaining(g, r.worker) <= g.ahead_ns(self.gap_ns(r))

    def remaining(self, g: Slice, worker: str) -> int:
        """remaining(g) for `worker`: until its turn could come on `g`, or its load could begin.

        Where loads run beside turns, one that is there does not wait for loads, and one that is not need not
        wait for turns that will be over before it is loaded.
        """
        now = self.now_ns
        if not self.tuning.overlap_load:
            return g.remaining(now)
        turns = g.remaining(now, beside_loads=True)
        if g.runs_beside_loads(worker):
            return turns
        loads = g.loads_until(worker, now) - now
        if worker in g.held:
            return max(turns, loads) + sum(b.turn_ns for b in g.waiting if b.request.worker == worker)
        return max(loads, turns - self.estimates.load_ns(worker))

    def any_idle(self) -> bool:
        """Whether some slice may count as idle for somebody."""
        limit, overlap, now = self.tuning.ahead_limit_ns, self.tuning.overlap_load, self.now_ns
        for g in self.maybe_idle():
            if not g.open:
                continue
            if g.running is None and not g.waiting:
                return True
            if limit or self.tuning.gaps:
                turns = g.remaining(now, overlap)
                if turns <= limit or (overlap and g.loads_until("", now) - now <= limit):
                    return True
        return False

    def any_idle_for(self, r: Request) -> bool:
        """Whether some slice counts as idle for `r`, though it may not fit there."""
        return any(self.idle(g, r) for g in self.maybe_idle())

    def first_hit(self) -> tuple[Request, Slice] | None:
        """The oldest request whose worker is on an idle slice, and that slice: soonest free, lowest index."""
        best: tuple[Request, Slice] | None = None
        rank: tuple[tuple[int, int], int, int] | None = None
        waiting = self.queue.workers
        for g in self.maybe_idle():
            if not g.open:
                continue
            occupied = g.running is not None or bool(g.waiting)
            left = g.remaining(self.now_ns, self.tuning.overlap_load) if occupied else 0
            if left > self.tuning.ahead_limit_ns or (occupied and not self.tuning.gaps):
                continue
            held = g.held
            for worker in held if len(held) < len(waiting) else waiting:
                if worker not in held or worker not in waiting or not self._may_be_idle(g, worker, left):
                    continue
                r = next((r for r in waiting[worker] if self.idle(g, r)), None)
                if r is not None and (rank is None or (r.order, left, g.index) < rank):
                    best, rank = (r, g), (r.order, left, g.index)
        return best

    def _may_be_idle(self, g: Slice, worker: str, left: int) -> bool:
        """Whether `g` may be idle for some request of `worker`: spares a walk along all of them."""
        if not self.tuning.ahead_limit_ns:
            return left <= 0
        return left <= g.ahead_ns(self.estimates.gap_ns(worker))

    def roomiest_idle(self, r: Request) -> Slice | None:
        """The idle slice for a miss: soonest free, most free memory before eviction, lowest index."""
        soon = [g for g in self.maybe_idle() if self.idle(g, r) and self.fits(g, r)]
        if not self._only_empty_idle:
            left = [max(0, self.remaining(g, r.worker)) for g in soon]
            soonest = min(left, default=0)
            soon = [g for g, ns in zip(soon, left, strict=True) if ns == soonest]
        most = max((g.free_bytes for g in soon), default=0)
        return next((g for g in soon if g.free_bytes >= most - self.tuning.equal_bytes), None)

    def busy_holders(self, r: Request) -> list[Slice]:
        """Slices that hold the worker and are not idle, lowest index first."""
        return [g for g in self.holders.of(r.worker) if self.may(g, r) and not self._idle(g, r)]

    # ------------------------------------------------------------------ times

    def wait_and_service(self, g: Slice, r: Request) -> tuple[int, int]:
        """(T_wait, T_est) of `r` on `g`: the wait for all that is bound there, and what `r` itself would take.

        Equation 1 of the ELSA paper, with loads: each counts for the first request that needs it, unless the worker
        is there now; evictions are not foreseen. Live, a load begins at the binding and what is left of it when the
        turn comes counts.
        """
        turn_ns = self.turn_ns(g, r)
        if self.tuning.gaps:
            wait_ns = self.remaining(g, r.worker) if r.worker in g.held else self._turns_left(g)
            return max(0, wait_ns), max(0, self.ready_ns(g, r) - max(0, wait_ns)) + turn_ns
        backlog = self._backlog(g)
        here = r.worker in g.held or r.worker in backlog.coming
        wait_ns = g.turn_until(self.now_ns) - self.now_ns + backlog.ns
        return wait_ns, turn_ns if here else turn_ns + self.estimates.load_ns(r.worker)

    def _backlog(self, g: Slice) -> Backlog:
        """The walk of `g`'s queue, taken up where it ended if only more has come since."""
        backlog = g.backlog
        while backlog.counted < len(g.waiting):
            b = g.waiting[backlog.counted]
            worker = b.request.worker
            backlog.counted += 1
            backlog.ns += b.turn_ns
            if worker not in g.held and worker not in backlog.coming:
                backlog.coming.add(worker)
                backlog.ns += self.estimates.load_ns(worker)
        return backlog

    def _turns_left(self, g: Slice) -> int:
        return g.remaining(self.now_ns, self.tuning.overlap_load)

    def gap_ns(self, r: Request) -> int:
        """From the binding to the first call: a late binding's call waits already."""
        return 0 if r.late or not self.tuning.gaps else self.estimates.gap_ns(r.worker)

    def turn_ns(self, g: Slice, r: Request) -> int:
        """How long `r` occupies `g`."""
        return self.estimates.turn_ns(r.worker, g.spec.gpcs, r.batch)

    def ready_ns(self, g: Slice, r: Request) -> int:
        """From now until r's first call can run on `g`, but for other turns: its gap, and the load if it needs one."""
        gap_ns = self.gap_ns(r)
        held = r.worker in g.held
        if not self.tuning.overlap_load:
            return gap_ns + (0 if held else self.estimates.load_ns(r.worker))
        if held and g.runs_beside_loads(r.worker):
            return gap_ns
        loaded_ns = g.loads_until(r.worker, self.now_ns) - self.now_ns
        return max(gap_ns, loaded_ns if held else loaded_ns + self.estimates.load_ns(r.worker))

    def finish_hit(self, g: Slice, r: Request) -> int:
        """finish_hit(g, r): the wait at a busy holder, and the inference."""
        return max(self.remaining(g, r.worker), self.ready_ns(g, r)) + self.turn_ns(g, r)

    def finish_miss(self, g: Slice, r: Request) -> int:
        """finish_miss(r) on idle `g`: load and inference."""
        return max(self._turns_left(g), self.ready_ns(g, r)) + self.turn_ns(g, r)
