"""Requests drawn instead of listed: `requests: {trace: {rate_rps, ...}}`, Poisson as in both papers, or in bursts.

Every draw is a uniform number turned into what is wanted here, so that a seed means the same requests under
every NumPy 2; the stream is another than that of the noise, which belongs to the list of requests.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Any, TypeVar

from proto.wire import fields
from proto.wire.fields import bad
from simulator.bursts import Switching, bursts

_FIELD = "requests.trace"
_STREAM = 1  # of the seed; the noise has the seed itself
_BURSTS_STREAM = 2
_MOST = 10_000_000  # requests; beyond, memory ends before patience does
_MOST_BATCH = 100_000

Draw = Callable[[], float]
_Key = TypeVar("_Key", int, str)


def drawn_requests(value: Any, models: Iterable[str], seed: int) -> list[tuple[str, Any]]:
    """(where it stands, the request) of each, as from a file; raises SlicewiseError `bad_request`."""
    optional = ("requests", "duration_s", "models", "batches", "sla_s", "seed", "bursts")
    given = fields.table(value, _FIELD, ("rate_rps",), optional)
    rate = fields.number(given["rate_rps"], f"{_FIELD}.rate_rps", above=0)
    if ("requests" in given) == ("duration_s" in given):
        raise bad(f"{_FIELD}.requests", "must be given, or else duration_s; give one of the two")
    count = fields.whole(given.get("requests", _MOST), f"{_FIELD}.requests", least=0)
    end_s = fields.number(given["duration_s"], f"{_FIELD}.duration_s", least=0) if "duration_s" in given else math.inf
    for key, many in (("requests", count > _MOST), ("duration_s", "duration_s" in given and rate * end_s > _MOST)):
        if many:
            raise bad(f"{_FIELD}.{key}", f"makes over {_MOST} requests; give less")
    names, weights = _popularity(given.get("models", {}), list(models))
    batches, batch_weights = batch_sizes(given.get("batches", {"1": 1}), f"{_FIELD}.batches")
    shape = bursts(given["bursts"], f"{_FIELD}.bursts") if "bursts" in given else None
    if shape and min(end_s, count / rate) / (shape.on_s + shape.off_s) > _MOST:
        raise bad(f"{_FIELD}.bursts", f"makes over {_MOST} bursts; give longer ones")
    rest = {"sla_s": given["sla_s"]} if "sla_s" in given else {}

    import numpy  # takes longer to import than most scenarios to run

    own_seed = fields.whole(given.get("seed", seed), f"{_FIELD}.seed", least=0)
    draw: Draw = numpy.random.default_rng([own_seed, _STREAM]).random
    switching = Switching(shape, numpy.random.default_rng([own_seed, _BURSTS_STREAM]).random) if shape else None
    made: list[tuple[str, Any]] = []
    at_s = 0.0
    while len(made) < count:
        wait_s = -math.log1p(-draw()) / rate
        at_s = switching.after(at_s, wait_s) if switching else at_s + wait_s
        if at_s >= end_s:
            break
        number = len(made) + 1
        model, batch = names[pick(weights, draw)], batches[pick(batch_weights, draw)]
        made.append((f"{_FIELD}[{number}]", {"id": f"r{number}", "at_s": at_s, "model": model, "batch": batch, **rest}))
    return made


def _popularity(value: Any, models: Sequence[str]) -> tuple[list[str], list[float]]:
    """Models and their cumulated weights: given by name, by Zipf's law in the file's order, or all equal."""
    field = f"{_FIELD}.models"
    if isinstance(value, dict) and set(value) == {"zipf"} and "zipf" not in models:
        exponent = fields.number(value["zipf"], f"{field}.zipf", least=0)
        return _cumulated({name: rank**-exponent for rank, name in enumerate(models, 1)}, field)
    given = fields.named(value, field, "weights")
    for name, weight in given.items():
        if name not in models:
            raise bad(f"{field}.{name}", "is not in models; add it there or correct the name")
        fields.number(weight, f"{field}.{name}", least=0)
    return _cumulated(given or dict.fromkeys(models, 1), field)


def batch_sizes(value: Any, field: str) -> tuple[list[int], list[float]]:
    """Batch sizes and their cumulated weights: given by size, or the log-normal mass of (b - 0.5, b + 0.5]."""
    if isinstance(value, dict) and "lognormal" in value:
        given = fields.table(value, field, ("lognormal",))
        shape = fields.table(given["lognormal"], f"{field}.lognormal", ("median", "sigma", "max"))
        median = fields.number(shape["median"], f"{field}.lognormal.median", above=0)
        sigma = fields.number(shape["sigma"], f"{field}.lognormal.sigma", above=0)
        most = fields.whole(shape["max"], f"{field}.lognormal.max", least=1)
        if most > _MOST_BATCH:
            raise bad(f"{field}.lognormal.max", f"must be at most {_MOST_BATCH}")

        def below(size: float) -> float:
            return 0.5 * math.erfc(-math.log(size / median) / (sigma * math.sqrt(2)))

        return _cumulated({b: below(b + 0.5) - below(b - 0.5) for b in range(1, most + 1)}, field)
    sizes = fields.whole_keys(value, field, "batch sizes to weights")
    return _cumulated({b: fields.number(w, f"{field}.{b}", least=0) for b, w in sorted(sizes.items())}, field)


def _cumulated(weights: Mapping[_Key, float], field: str) -> tuple[list[_Key], list[float]]:
    sums = list(accumulate(map(float, weights.values())))
    if not sums or not 0 < sums[-1] < math.inf:
        raise bad(field, "must have weights of which one at least is above 0")
    return list(weights), sums


def pick(sums: Sequence[float], draw: Draw) -> int:
    """A place in cumulated weights, each as likely as its weight."""
    return min(bisect_right(sums, draw() * sums[-1]), len(sums) - 1)
