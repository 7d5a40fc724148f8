"""What the scheduler wants done. Every instruction says why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from proto.types.placing import Demand
from scheduler.core.requests import Request


@dataclass(frozen=True, slots=True)
class Instruction:
    """Anything to be done; `reason` is a sentence for people."""

    reason: str


@dataclass(frozen=True, slots=True)
class Bind(Instruction):
    """Give `request` a slice: sign a binding for its owner, and have the slice prepare.

    `local`: it joins the local queue of a busy slice. `hit`: its worker is there or loading there.
    `again`: the owner asked a second time; the binding exists, only the answer is repeated.
    """

    binding_id: str
    request: Request
    slice: str
    node: str
    hit: bool
    false_miss: bool
    local: bool
    queued_ns: int
    skips: int
    again: bool = False


@dataclass(frozen=True, slots=True)
class Refuse(Instruction):
    """Tell the owner that its call gets no slice; `code` is one of proto.types.errors."""

    owner: str
    call_id: str
    code: str
    message: str
    retry_after_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Unbind(Instruction):
    """Tell the slice's node that a binding is over; what waits for a turn with it fails with `code`.

    `soon` is early enough when it has given its turn back and nothing waits at the slice.
    """

    binding_id: str
    slice: str
    node: str
    code: str
    soon: bool = False


@dataclass(frozen=True, slots=True)
class TellOwner(Instruction):
    """Tell the owner that its binding was taken back. A call that still needs one is placed again by
    whoever carries it, and keeps its arrival time and its skips. `worker` is known where the call is:
    one that runs on a lost slice is told to its carrier, too, since it would wait there for nothing."""

    owner: str
    call_id: str
    binding_id: str
    code: str
    worker: str = ""


@dataclass(frozen=True, slots=True)
class Keep(Instruction):
    """What the choice of victims on this slice should know, sent ahead of a load that must evict."""

    slice: str
    node: str
    demand: Mapping[str, Demand]  # by worker
