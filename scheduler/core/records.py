"""What the scheduler remembers of its decisions: counters for metrics, and the recent ones with their reasons."""

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

    def turned(self, real_ns: int, estimated_ns: int) -> None:
        """Count one turn that ended."""
        self.turns += 1
        self.turn_ns += real_ns
        self.estimated_turn_ns += estimated_ns
        self.turn_error_ns += abs(real_ns - estimated_ns)
