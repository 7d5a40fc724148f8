"""What the scheduler remembers: counters of decisions and of what came of them, and how good its estimates were."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass, field

from scheduler.core.history import History, Placement, Refusal

# Upper bounds of measured by estimated time. 1 is a bound, so that what came sooner and what came later are told apart.
RATIOS = (0.1, 0.25, 0.5, 0.67, 0.8, 0.9, 1.0, 1.1, 1.25, 1.5, 2.0, 4.0, 10.0)


@dataclass(slots=True)
class Errors:
    """How far estimates of one kind were from what was measured; `ratios` counts by RATIOS, the last beyond them."""

    count: int = 0
    real_ns: int = 0
    estimated_ns: int = 0
    error_ns: int = 0  # sum of |real - estimated|
    ratio_sum: float = 0.0
    ratios: list[int] = field(default_factory=lambda: [0] * (len(RATIOS) + 1))

    def add(self, real_ns: int, estimated_ns: int) -> None:
        """One was measured; an estimate of nothing has no ratio."""
        self.count += 1
        self.real_ns += real_ns
        self.estimated_ns += estimated_ns
        self.error_ns += abs(real_ns - estimated_ns)
        if estimated_ns > 0:
            ratio = real_ns / estimated_ns
            self.ratio_sum += ratio
            self.ratios[bisect_left(RATIOS, ratio)] += 1


@dataclass(slots=True)
class Records:
    """Counters since the start, and the last placements, oldest first."""

    recent: History
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
    turn: Errors = field(default_factory=Errors)
    load: Errors = field(default_factory=Errors)

    @property
    def turns(self) -> int:
        """Turns that ended."""
        return self.turn.count

    @property
    def turn_ns(self) -> int:
        """What they took."""
        return self.turn.real_ns

    def placed(self, placement: Placement) -> None:
        """Count and keep one placement."""
        self.recent.placed(placement)
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

    def refuse(self, refusal: Refusal) -> None:
        """Count and keep one refusal."""
        self.refused[refusal.code] += 1
        self.recent.refused(refusal)

    def turned(self, real_ns: int, estimated_ns: int) -> None:
        """Count one turn that ended."""
        self.turn.add(real_ns, estimated_ns)
