"""Figure 6: what c does: the bounds, the surrogate, and the simulated mean response time of JFFC for each c."""

from __future__ import annotations

import argparse
import statistics
from collections import Counter
from typing import Any, get_args

from benchmarks import report
from benchmarks.figures import drawing
from benchmarks.figures.setting import RATE_RPS, anchors, service, topology
from scheduler.core.chains.dispatching import JoinFastestFreeChain
from scheduler.core.chains.planning import plan
from scheduler.core.chains.tuning import TuneBy, tune
from simulator.chains.queueing import poisson_jobs, simulate_chains
from simulator.chains.summary import summary

_RULES: tuple[TuneBy, ...] = get_args(TuneBy)
_MOST = 30
_NOTES = """
Means over the topologies that serve the demand with this c (`topologies_served`; J = 20, a fifth of them fast, 0.2 jobs
a second); seconds but for `surrogate`, c K(c). The paper finds that the surrogate reserves too little, the upper bound
too much, and that the lower bound chooses right. Choices of c: {choices}.
"""


def main() -> None:
    """Write results/chains-c."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--topologies", type=int, default=20)
    parser.add_argument("--jobs", type=int, default=5_000)
    options = parser.parse_args()
    places = anchors()
    wanted = service()
    topologies = [topology(places, seed) for seed in range(options.topologies)]
    rows: list[dict[str, Any]] = []
    for c in range(1, _MOST + 1):
        found: dict[str, list[float]] = {}
        for seed, servers in enumerate(topologies):
            made = plan(wanted, servers, c)
            if made.bounds is None:
                continue
            jobs, _ = poisson_jobs(RATE_RPS, options.jobs, seed)
            simulated = summary(simulate_chains(made.chains, JoinFastestFreeChain(made.chains), jobs))[
                "mean_response_s"
            ]
            assert simulated is not None
            found.setdefault("lower", []).append(made.bounds.lower_s)
            found.setdefault("simulated", []).append(simulated)
            found.setdefault("upper", []).append(made.bounds.upper_s)
            if made.disjoint_chains is not None:
                found.setdefault("surrogate", []).append(c * made.disjoint_chains)
        means = {name: statistics.fmean(values) for name, values in found.items()}
        rows.append({"c": c, "topologies_served": len(found.get("lower", [])), **means})
    choices = {rule: Counter(_chosen(wanted, servers, rule) for servers in topologies) for rule in _RULES}
    told = "; ".join(
        f"{rule} " + ", ".join(f"{c} ({times} times)" for c, times in sorted(counted.items()))
        for rule, counted in choices.items()
    )
    report.write("chains-c", "Jobs that a chain reserves memory for (figure 6)", rows, _NOTES.format(choices=told))
    names = ("lower", "simulated", "upper")
    xs = [row["c"] for row in rows]
    drawing.lines("chains-c", xs, {name: [row.get(name) for row in rows] for name in names}, "c", "mean response, s")


def _chosen(wanted: Any, servers: Any, rule: TuneBy) -> int:
    found = tune(wanted, servers, rule)
    return 0 if found is None else found.c


if __name__ == "__main__":
    main()
