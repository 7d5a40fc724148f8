"""What a GPU manager says about its slices: level-triggered, whole, with a sequence number."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

SHARED_POOL = "shared"


class SliceStatus(StrEnum):
    """What a slice does at this moment, for people and metrics."""

    IDLE = "idle"
    LOADING = "loading"
    BUSY = "busy"
    LOST = "lost"


class WorkerStatus(StrEnum):
    """A worker's life on its slice."""

    LOADING = "loading"
    READY = "ready"
    TURN = "turn"


@dataclass(frozen=True, slots=True)
class CachedWorker:
    """One worker on a slice. `held_bytes` is measured once loaded, an estimate before."""

    key: str
    status: WorkerStatus
    held_bytes: int
    last_used_ns: int
    models: tuple[str, ...] = ()
    exclusive_to: str = ""  # the binding that changed the worker's state, "" if none


@dataclass(frozen=True, slots=True)
class SliceSpec:
    """What never changes about a slice while its node lives."""

    id: str
    node: str
    index: int
    gpcs: int
    memory_bytes: int
    kind: str  # "cpu" | "gpu" | "mig" | "emulated"


@dataclass(frozen=True, slots=True)
class SliceState:
    """A slice as its GPU manager sees it.

    `workers` is in LRU order, least recently used first. `bindings` are those the GPU manager knows
    of and that have not ended; `turn` is the one of them that occupies the slice ("" if none).
    """

    spec: SliceSpec
    sequence: int
    pool: str
    status: SliceStatus
    free_bytes: int
    workers: tuple[CachedWorker, ...] = ()
    bindings: tuple[str, ...] = ()
    turn: str = ""
    turn_started_ns: int = 0
    waiting: tuple[str, ...] = ()
