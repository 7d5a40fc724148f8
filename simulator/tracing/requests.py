"""Calls of a trace as a scenario's requests; what a trace does not tell is drawn or given."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from proto.types.arrivals import Arrival
from simulator.arrivals import batch_sizes, pick


def requests(
    arrivals: Iterable[Arrival],
    models: Mapping[str, str],
    batches: Any,
    sla_s: float | None,
    draw: Callable[[], float],
) -> list[dict[str, Any]]:
    """r1, r2 ... of the models that functions have; `batches` and `sla_s` are for calls without their own.

    Raises SlicewiseError `bad_request` that names --batches.
    """
    sizes, weights = batch_sizes(batches, "--batches")
    made = []
    for number, arrival in enumerate(arrivals, 1):
        batch = arrival.batch or sizes[pick(weights, draw)]
        r = {"id": f"r{number}", "at_s": arrival.at_ns / 1e9, "model": models[arrival.function], "batch": batch}
        promised = arrival.sla_ns / 1e9 if arrival.sla_ns else sla_s
        made.append(r if promised is None else r | {"sla_s": promised})
    return made
