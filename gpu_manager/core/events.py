"""What may happen to a slice: the only things that the core is told.

All times are nanoseconds of one monotonic clock, which the caller reads and passes beside the event.
An `incarnation` tells two processes of the same worker key apart, so that a late word from a dead one
is never taken for the living one's.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from proto.types.errors import SlicewiseError


@dataclass(frozen=True, slots=True)
class Need:
    """A model by digest and the bytes of its tensors (0: not known)."""

    digest: str
    tensor_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Usual:
    """What invocations of a function usually do; `calls` 0 means that nothing is known yet."""

    gap_ns: int = 0  # from the start of the invocation to its first call
    between_ns: int = 0  # between two calls
    calls: float = 0.0


@dataclass(frozen=True, slots=True)
class Prepared:
    """A binding was made for this slice: start the load of what it will call."""

    binding: str
    worker: str
    expires_ns: int
    models: tuple[Need, ...] = ()
    usual: Usual = field(default_factory=Usual)
    held_bytes: int = 0  # of the worker with these models, as measured before; 0: not known
    declared_bytes: int = 0  # of an emulated worker; 0: it is a real one
    batch: int = 0


@dataclass(frozen=True, slots=True)
class CallArrived:
    """A model call (Infer) of a binding is at the door; `deadline_ns` is a point in time."""

    call: int
    binding: str
    model: Need
    deadline_ns: int
    batch: int = 0


@dataclass(frozen=True, slots=True)
class CallCancelled:
    """Whoever sent the call has gone or does not want it any more."""

    call: int


@dataclass(frozen=True, slots=True)
class BindingOver:
    """The invocation ended, or the scheduler took the binding back (then with a failure)."""

    binding: str
    failure: SlicewiseError | None = None


@dataclass(frozen=True, slots=True)
class Fetched:
    """The packages of these models are in the store of this node, or cannot be had."""

    worker: str
    digests: tuple[str, ...]
    failure: SlicewiseError | None = None


@dataclass(frozen=True, slots=True)
class VictimsNamed:
    """The cache manager's answer to AskVictims."""

    worker: str
    victims: tuple[str, ...]
    failure: SlicewiseError | None = None


@dataclass(frozen=True, slots=True)
class ModelLoaded:
    """The worker holds one more model; `held_bytes` are those of the whole worker."""

    worker: str
    incarnation: int
    digest: str
    held_bytes: int


@dataclass(frozen=True, slots=True)
class LoadFailed:
    """A load ended badly. `needed_bytes` above 0: it passed its limit, and needs at least so much."""

    worker: str
    incarnation: int
    digest: str
    failure: SlicewiseError
    needed_bytes: int = 0


@dataclass(frozen=True, slots=True)
class CallDone:
    """The worker answered the call. `state`: the worker differs from what was loaded; `failure`: the model raised."""

    call: int
    state: bool = False
    failure: SlicewiseError | None = None
    needed_bytes: int = 0  # above 0: the call passed the worker's limit, and needs at least so much
    peak_bytes: int = 0  # the most that the worker has held since it was loaded; 0: nobody measures it


@dataclass(frozen=True, slots=True)
class ResetDone:
    """The worker is again as it was loaded, or could not be made so."""

    worker: str
    incarnation: int
    ok: bool = True


@dataclass(frozen=True, slots=True)
class Measured:
    """The worker's bytes as they are now."""

    worker: str
    incarnation: int
    held_bytes: int


@dataclass(frozen=True, slots=True)
class WorkerGone:
    """The process has been reaped: its memory is free. `why` is for people ("killed by signal 9")."""

    worker: str
    incarnation: int
    why: str = "it ended"
    over_limit: bool = False  # the kernel ended it, because it passed its limit


@dataclass(frozen=True, slots=True)
class Wanted:
    """These worker keys may still be called; what else is here serves nobody any more."""

    workers: frozenset[str]


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed; the core asked to be woken."""


Event = (
    Prepared
    | CallArrived
    | CallCancelled
    | BindingOver
    | Fetched
    | VictimsNamed
    | ModelLoaded
    | LoadFailed
    | CallDone
    | ResetDone
    | Measured
    | WorkerGone
    | Wanted
    | Tick
)
