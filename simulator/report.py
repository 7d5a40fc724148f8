"""A run as one JSON document: what became of each request, and the papers' metrics over all of them.

Sums are exact, over whole nanoseconds; ratios and means are rounded to twelve significant digits, beyond
which two ways of computing them in doubles may differ.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from simulator.engine import Run

_NS = 10**9
_METRICS = (
    "mean_latency_s", "p50_latency_s", "p95_latency_s", "p99_latency_s", "latency_variance_s2", "miss_ratio",
    "false_miss_ratio", "mean_duplicates_hottest", "utilisation", "sla_violation_ratio", "makespan_s",
)  # fmt: skip


def document(run: Run) -> dict[str, Any]:
    """`policy`, `requests` in input order, `summary`."""
    return {"policy": run.policy.parameters(), "requests": _requests(run), "summary": summary(run)}


def _requests(run: Run) -> list[dict[str, Any]]:
    return [
        {
            "id": r.id,
            "slice": work.bind.slice,
            "at_s": r.at_ns / _NS,
            "start_s": work.start_ns / _NS,
            "finish_s": work.finish_ns / _NS,
            "hit": work.hit,
            "false_miss": work.false_miss,
            "skips": work.bind.skips,
        }
        for r, work in zip(run.scenario.requests, run.works, strict=True)
    ]


def summary(run: Run) -> dict[str, Any]:
    """Latency is from arrival to finish. Null where there is nothing to divide by, and all without requests."""
    count = len(run.works)
    if not count:
        return {"requests": 0} | dict.fromkeys(_METRICS)
    requests = run.scenario.requests
    latencies = [work.finish_ns - r.at_ns for r, work in zip(requests, run.works, strict=True)]
    ordered, total = sorted(latencies), sum(latencies)
    squares = sum(ns * ns for ns in latencies)
    misses = sum(not work.hit for work in run.works)
    false_misses = sum(work.false_miss for work in run.works)
    promised = [(ns, r.sla_ns) for ns, r in zip(latencies, requests, strict=True) if r.sla_ns is not None]
    late = sum(ns > sla_ns for ns, sla_ns in promised)
    return {
        "requests": count,
        "mean_latency_s": _ratio(total, count * _NS),
        "p50_latency_s": percentile(ordered, 50) / _NS,
        "p95_latency_s": percentile(ordered, 95) / _NS,
        "p99_latency_s": percentile(ordered, 99) / _NS,
        "latency_variance_s2": _ratio(count * squares - total * total, (count * _NS) ** 2),
        "miss_ratio": _ratio(misses, count),
        "false_miss_ratio": _ratio(false_misses, misses) if misses else 0.0,
        "mean_duplicates_hottest": _duplicates(run),
        "utilisation": _utilisation(run),
        "sla_violation_ratio": _ratio(late, len(promised)) if promised else None,
        "makespan_s": run.makespan_ns / _NS,
    }


def percentile(ordered: Sequence[int], percent: int) -> int:
    """Nearest rank: the smallest value that at least `percent` of all do not exceed."""
    return ordered[-(-percent * len(ordered) // 100) - 1]


def hottest(run: Run) -> str:
    """The most requested model; of several the first in the file."""
    asked = Counter(r.model for r in run.scenario.requests)
    return max(run.scenario.models, key=lambda name: asked[name])


def _duplicates(run: Run) -> float | None:
    """Time average of the slices that hold the hottest model, from the start of its load to its eviction."""
    if not run.makespan_ns:
        return None
    return _ratio(run.copies.until(hottest(run), run.makespan_ns), run.makespan_ns)


def _utilisation(run: Run) -> float | None:
    """Mean over slices of the share of time spent in inference, loads not counted."""
    if not run.makespan_ns:
        return None
    busy_ns = sum(work.infer_ns for work in run.works)
    return _ratio(busy_ns, run.makespan_ns * len(run.scenario.slices))


def _ratio(over: int, under: int) -> float:
    return float(f"{float(Fraction(over, under)):.12g}")
