"""Figure 5: mean response time of five policies and the bounds over the load, and the share of service in it."""

from __future__ import annotations

import argparse
import statistics
from typing import Any

from benchmarks import report
from benchmarks.figures import drawing
from benchmarks.figures.setting import C, anchors, service, topology
from scheduler.core.chains.bounds import bounds
from scheduler.core.chains.planning import plan
from simulator.chains.policies import make_policy
from simulator.chains.queueing import poisson_jobs, simulate_chains
from simulator.chains.summary import summary

_LOADS = (0.1, 0.3, 0.5, 0.7, 0.8, 0.9)
_POLICIES = ("jffc", "sed", "sa-jsq", "jsq", "jiq")
_PLACED_FOR_RPS = 1.0  # at 0.2 jobs a second one chain is placed on most topologies, and all policies are one
_NOTES = f"""
Seconds, means over the topologies (J = 20, a fifth of them fast, c = {C}, placed for {_PLACED_FOR_RPS:g} job a second).
The load is that of the total rate of the chains; `service_share` is how much of JFFC's response time is service. The
paper's number: over 85 % of the response time is service below a load of 0.7. Theorem 3.7 bounds JFFC only.
"""


def main() -> None:
    """Write results/chains-load."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--topologies", type=int, default=8)
    parser.add_argument("--jobs", type=int, default=10_000)
    options = parser.parse_args()
    places = anchors()
    plans = [plan(service(_PLACED_FOR_RPS), topology(places, seed), C) for seed in range(options.topologies)]
    rows: list[dict[str, Any]] = []
    for load in _LOADS:
        found: dict[str, list[float]] = {}
        for seed, made in enumerate(plans):
            rate = load * made.total_rate_rps
            limits = bounds(made.chains, rate)
            assert limits is not None
            found.setdefault("lower", []).append(limits.lower_s)
            for name in _POLICIES:
                jobs, random = poisson_jobs(rate, options.jobs, seed)
                measured = summary(simulate_chains(made.chains, make_policy(name, made.chains, random), jobs))
                mean_s, wait_s = measured["mean_response_s"], measured["mean_wait_s"]
                assert mean_s is not None
                assert wait_s is not None
                found.setdefault(name, []).append(mean_s)
                if name == "jffc":
                    found.setdefault("service_share", []).append(1 - wait_s / mean_s)
            found.setdefault("upper", []).append(limits.upper_s)
        rows.append({"load": load, **{name: statistics.fmean(values) for name, values in found.items()}})
    report.write("chains-load", "Policies for chains over the load (figure 5)", rows, _NOTES)
    names = ("lower", *_POLICIES, "upper")
    drawing.lines(
        "chains-load", _LOADS, {name: [row[name] for row in rows] for name in names}, "load", "mean response, s"
    )


if __name__ == "__main__":
    main()
