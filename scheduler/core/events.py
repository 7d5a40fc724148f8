"""What happens to the scheduler. Every event carries the time it is handled at, whole nanoseconds.

Any clock will do as long as it never runs backward and all events share it: the service passes the
monotonic clock, the simulator its virtual one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from proto.types.placing import Place
from proto.types.slices import SliceSpec, SliceState
from scheduler.core.policies.base import Policy


@dataclass(frozen=True, slots=True)
class Event:
    """Anything that happens."""

    now_ns: int


@dataclass(frozen=True, slots=True)
class Placed(Event):
    """`owner` asks for a slice. The same call from the same owner again changes nothing."""

    owner: str
    place: Place


@dataclass(frozen=True, slots=True)
class Cancelled(Event):
    """The owner no longer wants the call, queued or bound."""

    owner: str
    call_id: str


@dataclass(frozen=True, slots=True)
class Released(Event):
    """The owner is done with a binding."""

    owner: str
    binding_id: str


@dataclass(frozen=True, slots=True)
class OwnerGone(Event):
    """The owner's stream broke: what it has queued is withdrawn, what is bound is kept for a while."""

    owner: str


@dataclass(frozen=True, slots=True)
class OwnerBack(Event):
    """The owner's stream began; it still holds `bindings` and no others."""

    owner: str
    bindings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NodeExpected(Event):
    """Slices that were here before this scheduler started; they are lost until their node reports."""

    specs: tuple[SliceSpec, ...]


@dataclass(frozen=True, slots=True)
class NodeJoined(Event):
    """A node's stream began. `specs` are all the slices it has."""

    node: str
    specs: tuple[SliceSpec, ...]


@dataclass(frozen=True, slots=True)
class NodeLost(Event):
    """A node's stream ended."""

    node: str


@dataclass(frozen=True, slots=True)
class SliceReported(Event):
    """A slice's whole state as its GPU manager sees it."""

    state: SliceState


@dataclass(frozen=True, slots=True)
class TurnStarted(Event):
    """A binding occupies its slice from now on."""

    binding_id: str
    hit: bool


@dataclass(frozen=True, slots=True)
class TurnEnded(Event):
    """A binding gave its turn back: the slice can take the next. `infer_ns` sums the turn's calls."""

    binding_id: str
    calls: int = 0
    infer_ns: int = 0
    batch: int = 0
    handover_ns: int = 0


@dataclass(frozen=True, slots=True)
class Loaded(Event):
    """A worker finished loading, or could not ("" in `code` is success)."""

    slice: str
    worker: str
    load_ns: int
    held_bytes: int
    code: str = ""
    evicted: tuple[str, ...] = ()  # the workers that went for it


@dataclass(frozen=True, slots=True)
class BindingEnded(Event):
    """A binding is over at its slice; in the simulator this is a completion."""

    binding_id: str
    code: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class ProfileChanged(Event):
    """The estimates of a worker changed in a way that may decide where it fits."""

    worker: str


@dataclass(frozen=True, slots=True)
class FunctionDeleted(Event):
    """NAME.NAMESPACE is gone; its queued calls are refused."""

    function: str


@dataclass(frozen=True, slots=True)
class FunctionReserves(Event):
    """A function is deployed; it reserves `wish` ("4", "2x3g"), or nothing (""). None: no slice serves it.

    `worker`: the worker key of its newest revision, whose size its slices must have room for.
    """

    function: str
    wish: str | None
    worker: str = ""


@dataclass(frozen=True, slots=True)
class PoolsSet(Event):
    """Slices (by id) go to the pools that somebody chose."""

    pools: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class PoolsRestored(Event):
    """Pools as an earlier scheduler left them; see scheduler.core.pools."""

    by_hand: Mapping[str, str]
    chosen: Mapping[str, str]
    functions: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class PolicySet(Event):
    """Another policy decides from now on; the queue stays as it is."""

    policy: Policy


@dataclass(frozen=True, slots=True)
class Tick(Event):
    """Nothing but time. Due when `SchedulerCore.next_timer` says, and now and then for housekeeping."""
