"""What the core wants done: the driver carries these out in order, and each says why."""

from __future__ import annotations

from dataclasses import dataclass

from proto.types.errors import SlicewiseError


@dataclass(frozen=True, slots=True)
class Fetch:
    """See that the packages are in this node's store, then say Fetched."""

    worker: str
    digests: tuple[str, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class AskVictims:
    """Ask the cache manager who goes, then say VictimsNamed."""

    worker: str
    needed_bytes: int
    never: tuple[str, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class Kill:
    """End the worker's whole process group, then say WorkerGone. `evicted`: to make room for another."""

    worker: str
    incarnation: int
    reason: str
    evicted: bool = False


@dataclass(frozen=True, slots=True)
class Load:
    """Load one model; start the process first if `fresh`. Then say ModelLoaded or LoadFailed."""

    worker: str
    incarnation: int
    digest: str
    limit_bytes: int
    fresh: bool
    binding: str  # for whom: the worker runs under the uid of its function
    reason: str


@dataclass(frozen=True, slots=True)
class Limit:
    """From now on the worker may hold so many bytes; those of all workers together never pass the budget."""

    worker: str
    incarnation: int
    limit_bytes: int
    reason: str


@dataclass(frozen=True, slots=True)
class Run:
    """Pass the call to the worker now, then say CallDone."""

    call: int
    worker: str
    incarnation: int
    reason: str


@dataclass(frozen=True, slots=True)
class Reset:
    """Restore the worker's state, then say ResetDone."""

    worker: str
    incarnation: int
    reason: str


@dataclass(frozen=True, slots=True)
class Answer:
    """Tell the caller. queue_ns + load_ns + infer_ns is all the time since the call arrived."""

    call: int
    failure: SlicewiseError | None
    hit: bool
    queue_ns: int
    load_ns: int
    infer_ns: int
    state: bool
    repeatable: bool


@dataclass(frozen=True, slots=True)
class TurnBegan:
    """Report: a binding occupies the slice.

    `gap_ns`: how long the slice stood still though this call waited; -1: it did not wait.
    """

    binding: str
    hit: bool
    gap_ns: int


@dataclass(frozen=True, slots=True)
class TurnOver:
    """Report: the slice can take the next binding. `handover_ns` 0: not measured in this turn."""

    binding: str
    worker: str
    calls: int
    infer_ns: int
    batch: int
    handover_ns: int
    turn_ns: int
    reason: str


@dataclass(frozen=True, slots=True)
class WorkerLoaded:
    """Report: a load is over, well or badly."""

    worker: str
    load_ns: int
    held_bytes: int
    failure: SlicewiseError | None = None
    evicted: tuple[str, ...] = ()  # the workers that went for it


@dataclass(frozen=True, slots=True)
class BindingDropped:
    """Report: the slice knows this binding no more."""

    binding: str
    failure: SlicewiseError | None = None


Instruction = (
    Fetch
    | AskVictims
    | Kill
    | Load
    | Limit
    | Run
    | Reset
    | Answer
    | TurnBegan
    | TurnOver
    | WorkerLoaded
    | BindingDropped
)
