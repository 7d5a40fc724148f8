"""The LALB paper's requests by recipe: few functions, a fixed number of requests a minute, popularity from somewhere.

The paper (arXiv 2303.05601) takes the most invoked functions of a trace of Azure Functions and rescales each minute.
Here the shares of a minute are either such counts or Zipf's law. Nothing here reads a file.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

MINUTE_S = 60.0


def busiest(counts: Sequence[Sequence[int]], first_minute: int, minutes: int, functions: int) -> list[list[int]]:
    """The `functions` rows of most invocations in the window, most first, cut to it; minutes count from 1.

    Raises ValueError if fewer functions are called in the window at all.
    """
    cut = [list(row[first_minute - 1 : first_minute - 1 + minutes]) for row in counts]
    called = sorted((row for row in cut if sum(row)), key=sum, reverse=True)  # stable: ties by place in the file
    if len(called) < functions:
        raise ValueError(f"first_minute {first_minute}: {len(called)} functions are called, {functions} are wanted")
    return called[:functions]


def zipf(exponent: float, functions: int, minutes: int) -> list[list[float]]:
    """The same weights every minute: the n-th function's are n ** -exponent."""
    return [[rank**-exponent] * minutes for rank in range(1, functions + 1)]


def rescaled(weights: Sequence[float], total: int) -> list[int]:
    """Whole numbers in proportion to the weights that sum to `total`: largest remainder, ties to the first.

    All 0 where the weights are.
    """
    whole = sum(weights)
    if not whole:
        return [0] * len(weights)
    exact = [weight * total / whole for weight in weights]
    found = [int(share) for share in exact]
    rest = sorted(range(len(exact)), key=lambda i: found[i] - exact[i])
    for i in rest[: total - sum(found)]:
        found[i] += 1
    return found


def paper_scenario(
    weights: Sequence[Sequence[float]],
    models: Mapping[str, Mapping[str, Any]],
    slices: Sequence[Mapping[str, Any]],
    per_minute: int | None,
    seed: int,
) -> dict[str, Any]:
    """A scenario document: `weights[f][m]` of function f in minute m, each minute rescaled to `per_minute` requests.

    None rescales nothing: the weights are counts. Requests are uniform in their minute. Functions get their models one
    to one, by a shuffle; `seed` decides both. Raises ValueError if there are fewer models than functions.
    """
    draw = random.Random(seed)
    names = sorted(models)
    draw.shuffle(names)
    names = names[: len(weights)]
    if len(names) < len(weights):
        raise ValueError(f"models: {len(names)} are too few for {len(weights)} functions")
    arrivals = []
    for minute in range(len(weights[0])):
        column = [row[minute] for row in weights]
        wanted = [round(count) for count in column] if per_minute is None else rescaled(column, per_minute)
        for name, count in zip(names, wanted, strict=True):
            arrivals += [((minute + draw.random()) * MINUTE_S, name) for _ in range(count)]
    arrivals.sort()
    return {
        "slices": list(slices),
        "models": {name: models[name] for name in names},
        "requests": [{"id": f"r{n}", "at_s": at_s, "model": name} for n, (at_s, name) in enumerate(arrivals, 1)],
    }
