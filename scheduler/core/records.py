"""What the scheduler remembers: counters of decisions and of what came of them, and recent decisions with reasons."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Placement:
    """One decision, as `explain` shows it. Times are nanoseconds of the core's clock."""

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


@dataclass(slots=True)
class Records:
    """Counters since the start, and the last `recent` placements, oldest first."""

    recent: deque[Placement]
    hits: int = 0
    misses: int = 0
    false_misses: int = 0
    local: int = 0
    # What slices said when the first turn of a binding began. A decision may err either way: what it counted on
    # may be evicted before the call comes, what it did without may be loaded for another.
    turned_hits: int = 0
    turned_misses: int = 0
    turned_false_misses: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    taken_back: Counter[str] = field(default_factory=Counter)  # bindings by the code they were taken back with
    turns: int = 0
    turn_ns: int = 0
    estimated_turn_ns: int = 0
    turn_error_ns: int = 0  # sum of |real - estimated|

    def placed(self, placement: Placement) -> None:
        """Count and keep one placement."""
        self.recent.append(placement)
        if placement.hit:
            self.hits += 1
        else:
            self.misses += 1
            self.false_misses += placement.false_miss
        self.local += placement.local

    def began(self, hit: bool, held_elsewhere: bool) -> None:
        """Count the first turn of a binding: was the model there, and if not, did another slice hold it."""
        self.turned_hits += hit
        self.turned_misses += not hit
        self.turned_false_misses += not hit and held_elsewhere

    def turned(self, real_ns: int, estimated_ns: int) -> None:
        """Count one turn that ended."""
        self.turns += 1
        self.turn_ns += real_ns
        self.estimated_turn_ns += estimated_ns
        self.turn_error_ns += abs(real_ns - estimated_ns)
