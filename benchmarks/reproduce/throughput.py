"""Latency-bounded throughput, the MIG paper's measure (arXiv 2202.13481): how much a server takes within its SLA.

A server is slices of several sizes, their order being the index, and a policy. Every model is on every slice, as in
that paper: nothing loads.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gpu_manager.core.curves import Point
from gpu_manager.core.packing import packable
from simulator.engine import Run, simulate
from simulator.report import percentile
from simulator.scenario import policy_of, scenario
from slicewise.planning.batch_sizes import log_normal

Times = Mapping[int, Sequence[Point]]  # GPCs -> measured batches and their seconds


@dataclass(frozen=True, slots=True)
class Queries:
    """What arrives: a Poisson stream, batch sizes log-normal, and the SLA of each query in seconds."""

    count: int
    median: float
    sigma: float
    largest: int
    sla_s: float
    seed: int

    def mean_s(self, row: Sequence[Point]) -> float:
        """Mean time of a query on a slice with these times."""
        shares = log_normal(self.median, self.sigma, self.largest)
        assert shares is not None
        known = sorted((point.batch, point.latency_s) for point in row)
        return sum(share * _between(known, batch) for batch, share in enumerate(shares, 1))


@dataclass(frozen=True, slots=True)
class Server:
    """GPCs of each slice in order of their index, and a policy."""

    slices: tuple[int, ...]
    policy: str

    def capacity_rps(self, times: Times, queries: Queries) -> float:
        """Queries a second if no slice ever waited and each got its share of all batch sizes."""
        return sum(1 / queries.mean_s(times[gpcs]) for gpcs in self.slices)

    def run(self, times: Times, queries: Queries, rate_rps: float) -> Run:
        """One stream at a rate; the same draws at every rate, only faster."""
        table = {
            str(gpcs): {str(point.batch): point.latency_s for point in times[gpcs] if point.batch <= queries.largest}
            for gpcs in set(self.slices)
        }
        shape = {"median": queries.median, "sigma": queries.sigma, "max": queries.largest}
        document = {
            "preloaded": True,
            "seed": queries.seed,
            "slices": [{"id": f"g{n}", "gpcs": gpcs, "memory_gb": 1.0} for n, gpcs in enumerate(self.slices)],
            "models": {"model": {"memory_gb": 1.0, "load_s": 0.0, "infer_s": {"table": table}}},
            "requests": {
                "trace": {
                    "rate_rps": rate_rps,
                    "requests": queries.count,
                    "batches": {"lognormal": shape},
                    "sla_s": queries.sla_s,
                }
            },
        }
        return simulate(scenario(document), policy_of({"name": self.policy}))


def tail_s(run: Run, percent: int) -> float:
    """A percentile of latency."""
    requests = run.scenario.requests
    return percentile(sorted(w.finish_ns - r.at_ns for r, w in zip(requests, run.works, strict=True)), percent) / 1e9


def bounded_rps(server: Server, times: Times, queries: Queries, percent: int, steps: int) -> float:
    """The largest rate whose tail meets the SLA, by bisection in `steps`; 0 if even 2 % of the capacity fails.

    A policy that sends each query to a fitting slice takes more than the capacity, which lets chance send them.
    """

    def meets(rate_rps: float) -> bool:
        return tail_s(server.run(times, queries, rate_rps), percent) <= queries.sla_s

    most = server.capacity_rps(times, queries)
    least = 0.02 * most
    if not meets(least):
        return 0.0
    while meets(most):
        least, most = most, 1.5 * most
    for _ in range(steps):
        middle = (least + most) / 2
        if meets(middle):
            least = middle
        else:
            most = middle
    return least


def random_mix(gpu: str, gpus: int, gpcs: int, sizes: Sequence[int], seed: int) -> dict[int, int]:
    """Slices drawn one by one, each of a size that still fits the GPUs and the budget, until none does."""
    draw, counts = random.Random(seed), dict.fromkeys(sizes, 0)
    while True:
        left = gpcs - sum(size * count for size, count in counts.items())
        fitting = [s for s in sizes if s <= left and packable(gpu, {**counts, s: counts[s] + 1}, gpus)]
        if not fitting:
            return counts
        counts[draw.choice(fitting)] += 1


def _between(known: Sequence[tuple[int, float]], batch: int) -> float:
    after = next(n for n, (b, _) in enumerate(known) if b >= batch)
    if known[after][0] == batch:
        return known[after][1]
    (b0, s0), (b1, s1) = known[after - 1 : after + 1]
    return s0 + (s1 - s0) * (batch - b0) / (b1 - b0)
