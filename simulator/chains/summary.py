"""Means and percentiles of simulated jobs, under the names of the contract."""

from __future__ import annotations

from collections.abc import Sequence

from scheduler.core.chains.model import NS
from simulator.chains.queueing import Served, responses_ns, waits_ns

_PERCENTILES = (50, 95, 99)


def summary(served: Sequence[Served]) -> dict[str, float | None]:
    """Seconds over all jobs, from the first on; None without jobs. Percentiles are nearest-rank."""
    names = ["mean_response_s", "mean_wait_s", *(f"p{percent}_response_s" for percent in _PERCENTILES)]
    if not served:
        return dict.fromkeys(names)
    responses = sorted(responses_ns(served))
    count = len(responses)
    values = [
        sum(responses) / count / NS,
        sum(waits_ns(served)) / count / NS,
        *(responses[-(-percent * count // 100) - 1] / NS for percent in _PERCENTILES),
    ]
    return dict(zip(names, values, strict=True))
