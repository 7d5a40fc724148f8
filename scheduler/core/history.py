"""The last placements with their reasons, and what came of each: what `explain` tells of a call.

Memory is bounded by the number of placements that are kept; the oldest goes first. Nothing here decides
anything, and with a limit of 0 nothing is kept at all.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

_MAX_LOADS = 8  # loads noted for one binding: its worker's, and those of further models that it called


# Seen and Placement are made with every decision, and tuples are made several times faster than frozen dataclasses.


class Seen(NamedTuple):
    """One slice as the decision found it. `free_in_ns`: until it could begin with the request; -1: not looked at."""

    slice: str
    status: str
    held: bool
    fits: bool
    waiting: int
    free_in_ns: int
    free_bytes: int


class Placement(NamedTuple):
    """One decision. Times are nanoseconds of the core's clock; `foreseen` are the victims the core expected."""

    at_ns: int
    binding_id: str
    call_id: str
    worker: str
    slice: str
    hit: bool
    false_miss: bool
    local: bool
    queued_ns: int
    skips: int
    reason: str
    policy: str = ""
    batch: int = 0
    sla_ns: int = 0
    load_ns: int = 0  # as estimated
    turn_ns: int = 0  # as estimated
    slices: int = 0  # how many there were
    seen: tuple[Seen, ...] = ()
    holders: tuple[str, ...] = ()
    foreseen: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Load:
    """A load on the binding's slice that it waited for, and who went for it."""

    at_ns: int
    took_ns: int
    evicted: tuple[str, ...] = ()
    code: str = ""  # why it failed, if it did


@dataclass(slots=True)
class Course:
    """What came of a placement. -1: not yet."""

    loads: tuple[Load, ...] = ()
    began_ns: int = -1
    hit: bool = False
    false_miss: bool = False
    turned_ns: int = -1  # when its last turn ended
    turns: int = 0
    turn_ns: int = 0
    calls: int = 0
    infer_ns: int = 0
    ended_ns: int = -1
    code: str = ""
    why: str = ""

    def loaded(self, load: Load) -> None:
        """Its worker, or a further model of it, was loaded."""
        if len(self.loads) < _MAX_LOADS:
            self.loads += (load,)

    def turned(self, now_ns: int, took_ns: int, calls: int, infer_ns: int) -> None:
        """One of its turns is over."""
        self.turned_ns = now_ns
        self.turns += 1
        self.turn_ns += max(0, took_ns)
        self.calls += calls
        self.infer_ns += infer_ns


@dataclass(frozen=True, slots=True)
class Refusal:
    """A call that got no slice."""

    at_ns: int
    call_id: str
    worker: str
    arrived_ns: int
    skips: int
    code: str
    message: str


class History:
    """At most `limit` placements, and as many refusals; iterates over the placements, oldest first."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._kept: OrderedDict[str, tuple[Placement, Course]] = OrderedDict()  # by binding
        self._of_call: dict[str, list[str]] = {}  # call -> its bindings, oldest first
        self._refused: OrderedDict[str, Refusal] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def __iter__(self) -> Iterator[Placement]:
        return (placement for placement, _ in self._kept.values())

    def placed(self, placement: Placement) -> None:
        """Keep one more."""
        if not self.limit:
            return
        self._kept[placement.binding_id] = placement, Course()
        self._of_call.setdefault(base(placement.call_id), []).append(placement.binding_id)
        if len(self._kept) > self.limit:
            _, (oldest, _) = self._kept.popitem(last=False)
            call = base(oldest.call_id)
            self._of_call[call].remove(oldest.binding_id)
            if not self._of_call[call]:
                del self._of_call[call]

    def refused(self, refusal: Refusal) -> None:
        """A call left without a slice."""
        if not self.limit:
            return
        call = base(refusal.call_id)
        self._refused.pop(call, None)
        self._refused[call] = refusal
        if len(self._refused) > self.limit:
            self._refused.popitem(last=False)

    def course(self, binding_id: str) -> Course | None:
        """What came of a placement so far, to be written on; None if it is not kept."""
        kept = self._kept.get(binding_id)
        return kept[1] if kept is not None else None

    def of_call(self, call_id: str) -> list[tuple[Placement, Course]]:
        """All kept placements of a call, oldest first; an id with its ~N means that one alone."""
        found = [self._kept[binding] for binding in self._of_call.get(base(call_id), ())]
        return found if "~" not in call_id else [kept for kept in found if kept[0].call_id == call_id]

    def refusal(self, call_id: str) -> Refusal | None:
        """The last refusal of a call."""
        refusal = self._refused.get(base(call_id))
        return refusal if refusal is not None and call_id in (base(call_id), refusal.call_id) else None


def base(call_id: str) -> str:
    """The id that the client knows: ~N is appended to a call id that is used a second time."""
    return call_id.partition("~")[0]
