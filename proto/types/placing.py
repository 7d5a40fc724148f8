"""A call asks for a slice (Place) and is given one (Binding)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Place:
    """One invocation wants a slice. Whoever sends it owns it, and sends it again after a broken stream."""

    call_id: str
    worker: str  # WorkerKey
    batch: int = 0  # 0: not known
    sla_ns: int = 0  # 0: none
    waited_ns: int = 0  # before this Place was sent, by the owner's clock
    skips: int = 0
    deadline_ns: int = 0  # how long it may still wait, from the moment it is received; 0: no limit
    late: bool = False  # sent by a broker at the first model call
    avoid: tuple[str, ...] = ()  # slices on which it has just failed


@dataclass(frozen=True, slots=True)
class Binding:
    """The scheduler's answer: this invocation, that slice. It is signed and travels as a token."""

    id: str
    epoch: int
    call_id: str
    worker: str
    slice: str
    node: str
    door_path: str  # Unix socket of the node's data door; used only on that node
    door_address: str  # host:port of the same door over gRPC
    uid: int  # of the function's processes and workers
    hit: bool
    false_miss: bool
    queued_ns: int
    expires_unix_ns: int
    skips: int = 0
    batch: int = 0
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Demand:
    """How much a worker is wanted where room must be made: calls that wait for it, and calls a second of late."""

    queued: int = 0
    calls_per_s: float = 0.0  # 0: too few, or none for too long, to expect more

    @property
    def rank(self) -> tuple[bool, float]:
        """The lower goes first; equal ones go least recently used first."""
        return self.queued > 0, self.calls_per_s


@dataclass(frozen=True, slots=True)
class Victims:
    """The cache manager's answer to Admit: exactly the workers that must go, in this order."""

    slice: str
    keys: tuple[str, ...]
    reason: str
