"""Batch sizes as a distribution that was not counted but assumed (arXiv 2202.13481: log-normal batch sizes)."""

from __future__ import annotations

import itertools
import math


def log_normal(median: float, sigma: float, largest: int) -> tuple[float, ...] | None:
    """P(b) for b = 1..largest: the log-normal's mass on (b - 0.5, b + 0.5], renormalised; None if there is none.

    `median` and `sigma` are above 0; sigma is the standard deviation of the logarithm.
    """
    edges = [_standard(b + 0.5, median, sigma) for b in range(largest + 1)]
    masses = [_between(low, high) for low, high in itertools.pairwise(edges)]
    total = math.fsum(masses)
    return tuple(mass / total for mass in masses) if total > 0 else None


def _standard(x: float, median: float, sigma: float) -> float:
    return (math.log(x) - math.log(median)) / sigma


def _between(low: float, high: float) -> float:
    """The standard normal's mass from low to high, taken in the tail where it does not cancel."""
    if low > 0:
        low, high = -high, -low
    return _below(high) - _below(low)


def _below(z: float) -> float:
    return 0.5 * math.erfc(-z / math.sqrt(2))
