"""A second reading of what a plan is, exact and slow, with its own table of places, to compare plans with.

Written from the contract alone: rational numbers where the planner uses doubles, and all ways to fill the GPUs
where the planner packs.
"""

from __future__ import annotations

import itertools
import statistics
from fractions import Fraction
from functools import cache
from math import floor, log
from typing import Any

SIZES = (1, 2, 3, 4, 7)
# size -> (memory slices, starts)
PLACES = {1: (1, range(7)), 2: (2, (0, 2, 4)), 3: (4, (0, 4)), 4: (4, (0,)), 7: (8, (0,))}
NAMES = {
    "A100-40GB": {1: "1g.5gb", 2: "2g.10gb", 3: "3g.20gb", 4: "4g.20gb", 7: "7g.40gb"},
    "A100-80GB": {1: "1g.10gb", 2: "2g.20gb", 3: "3g.40gb", 4: "4g.40gb", 7: "7g.80gb"},
    "H100-80GB": {1: "1g.10gb", 2: "2g.20gb", 3: "3g.40gb", 4: "4g.40gb", 7: "7g.80gb"},
    "H200-141GB": {1: "1g.18gb", 2: "2g.35gb", 3: "3g.71gb", 4: "4g.71gb", 7: "7g.141gb"},
}
TINY = Fraction(1, 10**9)


@cache
def one_gpu() -> frozenset[tuple[int, ...]]:
    """All counts, in the order of SIZES, that one GPU can hold."""
    places = [(size, set(range(start, start + PLACES[size][0]))) for size in SIZES for start in PLACES[size][1]]
    found = {(0, 0, 0, 0, 0)}

    def put(index: int, free: set[int], counts: tuple[int, ...]) -> None:
        found.add(counts)
        for later in range(index, len(places)):
            size, slices = places[later]
            if slices <= free:
                at = SIZES.index(size)
                put(later + 1, free - slices, (*counts[:at], counts[at] + 1, *counts[at + 1 :]))

    put(0, set(range(8)), (0, 0, 0, 0, 0))
    return frozenset(found)


@cache
def fullest() -> tuple[tuple[int, ...], ...]:
    """Those of `one_gpu` that no other contains."""
    return tuple(
        counts
        for counts in sorted(one_gpu())
        if not any(other != counts and _within(counts, other) for other in one_gpu())
    )


@cache
def possible(counts: tuple[int, ...], gpus: int) -> bool:
    """Whether some choice of one filling per GPU contains the counts."""
    return any(
        _within(counts, tuple(map(sum, zip((0,) * 5, *chosen, strict=True))))
        for chosen in itertools.combinations_with_replacement(fullest(), gpus)
    )


def _within(counts: tuple[int, ...], other: tuple[int, ...]) -> bool:
    return all(one <= two for one, two in zip(counts, other, strict=True))


def plan(document: dict[str, Any]) -> dict[str, Any]:
    """Everything but the layout, which is anyone's choice; ratios are rational."""
    gpus = int(document["gpus"])
    budget = int(document.get("gpcs", 7 * gpus))
    knee = document.get("utilisation_knee", 0.8)
    dist = _dist(document["batches"])
    curves = {int(size): given for size, given in document["kinds"].items()}
    kinds = sorted(curves)
    largest = max(dist)

    knees: dict[int, int] = {}
    for at, size in enumerate(kinds):
        utilisation = {int(b): u for b, u in curves[size]["utilisation"].items()}
        own = [b for b in range(1, largest + 1) if utilisation[b] > knee]
        knees[size] = own[0] if own else largest
        if at == len(kinds) - 1:
            knees[size] = largest
        if at:
            knees[size] = max(knees[size], knees[kinds[at - 1]])

    ratios, shares = {}, {}
    low = 0
    for size in kinds:
        rate = {int(b): Fraction(t) for b, t in curves[size]["throughput_rps"].items()}
        segment = [b for b in dist if low < b <= knees[size]]
        ratios[size] = sum((dist[b] / rate[b] for b in segment), Fraction(0))
        shares[size] = sum((dist[b] for b in segment), Fraction(0))
        low = knees[size]

    real = {size: budget * ratios[size] / sum(s * ratios[s] for s in kinds) for size in kinds}
    n = _rounded(real, ratios, budget, {}, gpus)
    used = max(size for size in kinds if ratios[size] > 0)
    if n[used] == 0 and shares[used] >= Fraction(1, 100) - TINY and used <= budget:
        others = {size: count for size, count in real.items() if size != used}
        whole = sum(size * count for size, count in others.items())
        others = {size: count * (budget - used) / whole for size, count in others.items()}
        n = _rounded(others, ratios, budget - used, {used: 1}, gpus)
    return {
        "knees": knees,
        "ratios": ratios,
        "instances": {size: n[size] for size in kinds},
        "leftover_gpcs": budget - sum(size * count for size, count in n.items()),
    }


def _rounded(
    real: dict[int, Fraction], ratios: dict[int, Fraction], budget: int, given: dict[int, int], gpus: int
) -> dict[int, int]:
    def holds(n: dict[int, int]) -> bool:
        return possible(tuple({**n, **given}.get(size, 0) for size in SIZES), gpus)

    n = {size: floor(count + TINY) for size, count in real.items()}
    while not holds(n):
        order = sorted(size for size in n if n[size] > 0)
        least = min(real[size] - n[size] for size in order)
        n[next(size for size in order if real[size] - n[size] - least <= TINY)] -= 1
    while True:
        left = budget - sum(size * count for size, count in n.items())
        order = [s for s in sorted(n, reverse=True) if ratios[s] > 0 and s <= left and holds({**n, s: n[s] + 1})]
        if not order:
            return {**n, **given}
        most = max(real[size] - n[size] for size in order)
        n[next(size for size in order if most - (real[size] - n[size]) <= TINY)] += 1


def _dist(batches: dict[Any, Any]) -> dict[int, Fraction]:
    if "lognormal" not in batches:
        given = {int(b): Fraction(p) for b, p in batches.items()}
        return {b: given.get(b, Fraction(0)) for b in range(1, max(given) + 1)}
    shape = batches["lognormal"]
    normal = statistics.NormalDist(log(shape["median"]), shape["sigma"])
    mass = {b: normal.cdf(log(b + 0.5)) - normal.cdf(log(b - 0.5)) for b in range(1, int(shape["max"]) + 1)}
    return {b: Fraction(one) / Fraction(sum(mass.values())) for b, one in mass.items()}
