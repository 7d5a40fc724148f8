"""Everything that is known of one slice at one moment, and nothing about what to do with it.

`turns` and `loading` read and change it; `slice` tells them when.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum

from gpu_manager.core.events import Usual
from gpu_manager.core.instructions import Answer, Instruction, Kill, Limit
from gpu_manager.core.linger import due_ns
from gpu_manager.core.memory import Sizes
from proto.types.errors import REPEATABLE, SlicewiseError
from proto.types.slices import SliceSpec

TOMBSTONES = 4096  # ended bindings that are remembered, so that a late call is refused by name


class Phase(StrEnum):
    """A worker's life."""

    LOADING = "loading"
    READY = "ready"
    RESETTING = "resetting"
    UNLOADING = "unloading"  # its end was ordered; nothing runs on it any more


class Stage(StrEnum):
    """How far a load is. From ASKING on it holds the slice's only load slot."""

    WAITING = "waiting"
    ASKING = "asking"
    EVICTING = "evicting"
    LOADING = "loading"


@dataclass
class Worker:
    """The process that holds a function's models here. `charge` counts against the budget until it is reaped."""

    key: str
    incarnation: int
    charge: int
    last_used_ns: int
    phase: Phase = Phase.LOADING
    models: list[str] = field(default_factory=list)
    dirty_by: str = ""  # the binding that changed its state
    running: int = 0  # the call it runs, 0 if none
    load_began_ns: int = 0
    load_ns: int = 0  # what its loads took, without the wait for room
    ready_ns: int = 0
    lent: int = 0  # beside the charge, for the call it runs
    limit: int = -1  # what it was told last
    overgrown: bool = False  # holds more than the slice can give it; goes when nobody needs it


@dataclass
class Bound:
    """A binding that has not ended."""

    id: str
    worker: str
    prepared_ns: int
    expires_ns: int
    usual: Usual
    batch: int
    planned: list[str]  # models that it is expected to call
    order: int = 0
    used: list[str] = field(default_factory=list)  # models that it has called
    calls: int = 0
    last_call_ns: int = 0
    open_calls: int = 0  # waiting or running
    caused_load: bool = False
    changed: bool = False
    lost: bool = False  # the state it had made died with its worker
    ending: bool = False
    end_failure: SlicewiseError | None = None


@dataclass
class Call:
    """One model call, waiting or running."""

    id: int
    binding: str
    worker: str
    digest: str
    arrived_ns: int
    deadline_ns: int
    batch: int
    order: int = 0  # of arrival; at one instant, too
    miss: bool = False
    started_ns: int = -1  # -1: it waits
    load_ns: int = 0
    answered: bool = False
    overruns: int = 0
    needs: int = 0  # bytes of its worker that it was seen to lack room for


@dataclass
class Job:
    """A load that is wanted; one a worker key."""

    worker: str
    order: int  # of what first wanted it
    binding: str
    stage: Stage = Stage.WAITING
    only: list[str] = field(default_factory=list)  # after an outgrown worker's restart: these models alone
    target: list[str] = field(default_factory=list)
    reserved: int = 0
    charged_before: int = 0  # of the worker, when it already holds other models
    fetched: set[str] = field(default_factory=set)
    fetching: set[str] = field(default_factory=set)
    victims: list[str] = field(default_factory=list)
    evicted: list[str] = field(default_factory=list)  # who really went for it
    asks: int = 0
    deaths: int = 0
    not_before_ns: int = 0
    began_ns: int = 0
    started_ns: int = 0  # the first model is being loaded since then
    blocked: bool = False  # waits for room that protected workers hold


@dataclass
class Turn:
    """The right to occupy the slice."""

    binding: str
    worker: str
    started_ns: int
    handover_ns: int
    batch: int
    usual: Usual
    calls: int = 0
    infer_ns: int = 0
    running: int = 0
    idle_since_ns: int = 0


class Board:
    """One slice. Workers are kept in LRU order, calls in order of arrival."""

    def __init__(self, spec: SliceSpec, sizes: Sizes, max_waiting: int) -> None:
        self.spec = spec
        self.sizes = sizes
        self.max_waiting = max_waiting
        self.workers: OrderedDict[str, Worker] = OrderedDict()
        self.bindings: dict[str, Bound] = {}
        self.calls: dict[int, Call] = {}
        self.jobs: dict[str, Job] = {}
        self.slot = ""  # the worker key whose job holds the load slot
        self.turn: Turn | None = None
        self.wanted: frozenset[str] | None = None  # worker keys that may still be called; None: not known yet
        self.last_turn_end_ns = 0
        self.incarnations = 0
        self.arrivals = 0
        self.ended: OrderedDict[str, None] = OrderedDict()
        self.out: list[Instruction] = []

    def uncharged_bytes(self) -> int:
        """What no worker is charged for; never below 0. A running call may have been lent it."""
        return self.spec.memory_bytes - sum(worker.charge for worker in self.workers.values())

    def free_bytes(self) -> int:
        """What nobody may touch at this moment; never below 0."""
        return self.uncharged_bytes() - sum(worker.lent for worker in self.workers.values())

    def coming_bytes(self) -> int:
        """What will be free once the running call and those workers that were told to go have given theirs back."""
        leaving = sum(worker.charge for worker in self.workers.values() if worker.phase is Phase.UNLOADING)
        return self.uncharged_bytes() + leaving

    def next_order(self) -> int:
        """Who came first, when both came in one nanosecond."""
        self.arrivals += 1
        return self.arrivals

    def waiting(self) -> Iterator[Call]:
        """Calls that have not started, oldest first."""
        return (call for call in self.calls.values() if call.started_ns < 0)

    def loaded(self, call: Call) -> bool:
        """Whether the call's model is on the slice (its worker may be busy or being reset)."""
        worker = self.workers.get(call.worker)
        return worker is not None and worker.phase in (Phase.READY, Phase.RESETTING) and call.digest in worker.models

    def condemned(self, key: str) -> bool:
        """Whether a load waits for this worker to go; no new turn starts on it."""
        return any(job.stage is Stage.EVICTING and key in job.victims for job in self.jobs.values())

    def runnable(self, call: Call) -> bool:
        """Whether the call could start now, were the slice free."""
        worker = self.workers.get(call.worker)
        return (
            worker is not None
            and worker.phase is Phase.READY
            and not worker.running
            and call.digest in worker.models
            and worker.dirty_by in ("", call.binding)
            and call.needs <= worker.charge + self.free_bytes()
        )

    def due_until(self, bound: Bound) -> int:
        """Until when the binding's next call is waited for; 0: it is not."""
        worker = self.workers.get(bound.worker)
        wait = due_ns(bound.usual, bound.calls, worker.load_ns if worker is not None else 0)
        if not wait or bound.ending:
            return 0
        ready = worker.ready_ns if worker is not None else 0
        return wait + (bound.last_call_ns if bound.calls else max(bound.prepared_ns, ready))

    def answer(self, call: Call, failure: SlicewiseError | None, now: int, *, state: bool = False) -> None:
        """Tell the caller; the call stays until `forget`. A second answer to one call is dropped."""
        if call.answered:
            return
        call.answered = True
        bound = self.bindings.get(call.binding)
        changed = bound is not None and (bound.changed or bound.lost)
        total = now - call.arrived_ns
        started = call.started_ns >= 0
        infer = now - call.started_ns if started else 0
        load = call.load_ns if started else self.load_share(call, now)
        repeatable = failure is not None and failure.code in REPEATABLE and not changed
        self.out.append(Answer(call.id, failure, not call.miss, total - infer - load, load, infer, state, repeatable))

    def load_share(self, call: Call, now: int) -> int:
        """How much of the call's wait until now was its worker's load."""
        worker = self.workers.get(call.worker)
        if worker is None or not worker.load_began_ns:
            return 0
        end = now if worker.phase is Phase.LOADING else min(worker.ready_ns, now)
        return max(0, end - max(call.arrived_ns, worker.load_began_ns))

    def forget(self, call: Call) -> None:
        """The call neither waits nor runs any more."""
        if self.calls.pop(call.id, None) is None:
            return
        bound = self.bindings.get(call.binding)
        if bound is not None:
            bound.open_calls -= 1

    def fail(self, call: Call, failure: SlicewiseError, now: int) -> None:
        """Answer a waiting call with a failure and forget it."""
        self.answer(call, failure, now)
        self.forget(call)

    def kill(self, worker: Worker, reason: str, *, evicted: bool = False) -> None:
        """Order a worker's end, once."""
        if worker.phase is not Phase.UNLOADING:
            worker.phase = Phase.UNLOADING
            self.out.append(Kill(worker.key, worker.incarnation, reason, evicted))

    def limits(self) -> list[Instruction]:
        """What workers have to be told of the room they have, lower ones first."""
        changed: list[Limit] = []
        for worker in self.workers.values():
            limit = worker.charge + worker.lent
            if worker.phase is Phase.LOADING or self.sizes.is_declared(worker.key):
                worker.limit = -1  # a load brings its own
            elif worker.phase is not Phase.UNLOADING and limit != worker.limit:
                worker.limit = limit
                reason = "for the call that it runs" if worker.lent else "what it is charged"
                changed.append(Limit(worker.key, worker.incarnation, limit, reason))
        return [*sorted(changed, key=lambda order: order.limit_bytes)]

    def bury(self, binding: str) -> None:
        """Remember that a binding has ended."""
        self.ended[binding] = None
        if len(self.ended) > TOMBSTONES:
            self.ended.popitem(last=False)
