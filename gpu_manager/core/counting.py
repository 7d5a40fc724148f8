"""From the proportion of sizes to whole instances within a budget (arXiv 2202.13481, Algorithm 1, lines 17-26).

The paper only says that the ratio decides how the GPCs are divided. Here the real-valued counts n* use the budget up
exactly, and three steps make them whole: round down to what the GPUs can hold; hand out what remains to whoever is
furthest below n*; and do not leave the largest batches without a fast slice for the sake of rounding. What "can hold"
means is asked of the caller, since a GPU's memory slices, not its GPCs, decide it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from proto.types.errors import SlicewiseError

Packable = Callable[[Mapping[int, int]], bool]

SAME = 1e-9  # two real-valued counts, or a count and an integer, that differ by less are equal
NOTICEABLE = 0.01  # the part of all requests from which on a segment must have a slice


@dataclass(frozen=True, slots=True)
class Demand:
    """What a size is wanted for: its ratio R_k, and the part of the requests that its segment holds."""

    gpcs: int
    ratio: float
    share: float


def counts(demands: Sequence[Demand], budget: int, packable: Packable) -> dict[int, int]:
    """GPCs -> instances, for every size, using at most `budget` GPCs and packable. `demands` go by increasing size.

    Raises SlicewiseError `bad_request` when the ratios are no numbers that a budget can be divided by.
    """
    found = _whole(demands, budget, {}, packable)
    largest = [demand for demand in demands if demand.ratio > 0][-1]
    if found[largest.gpcs] == 0 and largest.share >= NOTICEABLE - SAME and largest.gpcs <= budget:  # step 3
        others = [demand for demand in demands if demand is not largest]
        found = _whole(others, budget - largest.gpcs, {largest.gpcs: 1}, packable)
    return {demand.gpcs: found[demand.gpcs] for demand in demands}


def real_counts(demands: Sequence[Demand], budget: int) -> dict[int, float]:
    """n*: counts in the proportion of the ratios that use the budget up exactly."""
    total = sum(demand.gpcs * demand.ratio for demand in demands)
    scale = budget / total if total > 0 else math.inf
    if not math.isfinite(scale) or not math.isfinite(total):
        raise SlicewiseError(
            "bad_request", "kinds: throughput_rps is too small or too large to compute with; give queries per second."
        )
    return {demand.gpcs: scale * demand.ratio for demand in demands}


def _whole(demands: Sequence[Demand], budget: int, fixed: Mapping[int, int], packable: Packable) -> dict[int, int]:
    """Steps 1 and 2 for `demands`, beside instances that are already settled."""
    wanted = real_counts(demands, budget)
    n = {gpcs: math.floor(real + SAME) for gpcs, real in wanted.items()}

    def below(gpcs: int) -> float:
        return wanted[gpcs] - n[gpcs]

    while not packable({**fixed, **n}):  # step 1
        some = [gpcs for gpcs in n if n[gpcs] > 0]
        least = min(below(gpcs) for gpcs in some)
        n[min(gpcs for gpcs in some if below(gpcs) <= least + SAME)] -= 1

    asked = [demand.gpcs for demand in demands if demand.ratio > 0]
    remaining = budget - sum(gpcs * count for gpcs, count in n.items())
    while True:  # step 2
        fitting = [gpcs for gpcs in asked if gpcs <= remaining and packable({**fixed, **n, gpcs: n[gpcs] + 1})]
        if not fitting:
            return {**fixed, **n}
        most = max(below(gpcs) for gpcs in fitting)
        chosen = max(gpcs for gpcs in fitting if below(gpcs) >= most - SAME)
        n[chosen] += 1
        remaining -= chosen
