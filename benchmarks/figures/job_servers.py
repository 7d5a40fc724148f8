"""Figure 4: job slots that the demand takes, by GCA, by disjoint chains, at best, and at the very least."""

from __future__ import annotations

import argparse
import statistics
from typing import Any

from benchmarks import report
from benchmarks.figures import drawing
from benchmarks.figures.setting import C, anchors, service, topology
from scheduler.core.chains.planning import plan
from simulator.chains.job_servers import greedy_job_servers, least_job_servers, optimal_job_servers

_RATES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)
_NOTES = """
Means over the topologies that disjoint chains of c = 7 serve (J = 20, a fifth of them fast). `disjoint` reserves
c K(c) slots; `gca` takes the slots of its chains, fastest first; `ilp` divides the caches among the same chains as an
integer program; `bound` is ceil(lambda / (rho mu_1)). `gca_is_best` is the share of topologies where GCA takes no
slot more than the integer program. The paper compares the same four; we know no numbers of its figure.
"""


def main() -> None:
    """Write results/chains-job-servers."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--topologies", type=int, default=20)
    options = parser.parse_args()
    places = anchors()
    rows: list[dict[str, Any]] = []
    for rate in _RATES:
        wanted = service(rate)
        counts: list[tuple[int, int, int, int]] = []
        for seed in range(options.topologies):
            servers = topology(places, seed)
            made = plan(wanted, servers, C)
            greedy = greedy_job_servers(wanted, made.chains)
            best = optimal_job_servers(wanted, servers, made.placement, made.chains)
            if made.disjoint_chains is None or greedy is None or best is None:
                continue
            counts.append((C * made.disjoint_chains, greedy, sum(best), least_job_servers(wanted, made.chains)))
        row: dict[str, Any] = {"rate_rps": rate, "topologies_served": len(counts)}
        if counts:
            means = map(statistics.fmean, zip(*counts, strict=True))
            row |= dict(zip(("disjoint", "gca", "ilp", "bound"), means, strict=True))
            row["gca_is_best"] = sum(gca == ilp for _, gca, ilp, _ in counts) / len(counts)
        rows.append(row)
    report.write("chains-job-servers", "Job slots that a demand takes (figure 4)", rows, _NOTES)
    names = ("disjoint", "gca", "ilp", "bound")
    drawing.lines(
        "chains-job-servers",
        _RATES,
        {name: [row.get(name) for row in rows] for name in names},
        "jobs a second",
        "slots",
    )


if __name__ == "__main__":
    main()
