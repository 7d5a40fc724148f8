"""The MIG paper's effects (arXiv 2202.13481), from the scheduler that serves: `python -m benchmarks.reproduce.elsa`.

ELSA and FIFS on slices of one size and of several, with times that were measured on an A100. One configuration file
beside this one makes one figure.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from benchmarks import report
from benchmarks.figures import drawing
from benchmarks.reproduce import sources
from benchmarks.reproduce.throughput import Queries, Server, Times, bounded_rps, random_mix, tail_s
from gpu_manager.core import curves, paris
from simulator.report import summary
from slicewise.planning.batch_sizes import log_normal

FIGURES = ("elsa-throughput", "elsa-variance")
KINDS = (1, 2, 3, 4, 7)
# The paper's, at its default factor and variance: throughput as a share of PARIS + ELSA's, and tail latency over its at
# the rate that meets the SLA.
PAPER_SHARE = {("MobileNet-V2", "3"): 0.70, ("ResNet-50", "3"): 0.94}
PAPER_TAIL = {("MobileNet-V2", "3"): 17.4, ("ResNet-50", "3"): 1.2}
PAPER_FACTOR, PAPER_SIGMA = 1.5, 0.9

_NOTES = """
`bounded_rps` is the largest Poisson rate whose 95th percentile of latency meets the SLA (0: none does), `share` that
over the one of ELSA on the reference mix (`paper` where the paper prints one, else `planned`, which is what `slicewise
partition plan` makes of the same measurements), `over_gpu7` that over 3 slices of 7 GPCs. `tail_ratio` and
`sla_violation_ratio` are at the rate that the reference just takes, 3000 queries long. FIFS gives a query to the idle
slice of lowest index, small slices first unless said otherwise. SLA: the factor times the time of a batch of 32 on 7
GPCs. **Assumed:** the median batch (4), the variance (sigma of the logarithm), the slice that the SLA refers to, the
percentile, and 24 GPCs for both models; times are ParvaGPU's of an A100-80GB, not the paper's.
"""


def main() -> None:
    """Write results/elsa-*, and ELSA's rows of results/policies."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("figure", nargs="*", help=", ".join(FIGURES))
    for name in parser.parse_args().figure or FIGURES:
        given = sources.figure(name)
        rows = [
            row
            for model, about in given["models"].items()
            for factor in given["sla_factors"]
            for sigma in given["batches"]["sigmas"]
            for row in _rows(given, model, about, factor, sigma)
        ]
        sources.page(name, given, rows, _NOTES)
        _bars(name, rows)
        if name == FIGURES[0]:
            report.join("policies", "simulated, MIG paper", list(_shared_rows(name, rows)))


def servers(
    given: Mapping[str, Any], about: Mapping[str, Any], times: Times, queries: Queries
) -> dict[tuple[str, str], Server]:
    """(slices, policy) -> server; the reference is the first with ELSA."""
    budget = given["gpcs"]
    mixes: dict[str, Mapping[int, int]] = {}
    if "paper_mix" in about:
        mixes["paper"] = {int(gpcs): count for gpcs, count in about["paper_mix"].items()}
    dist = log_normal(queries.median, queries.sigma, queries.largest)
    assert dist is not None
    kinds = curves.kinds(times, queries.largest)
    plan = paris.partition(given["gpu"], given["gpus"], budget, kinds, dist, paris.UTILISATION_KNEE)
    mixes["planned"] = plan.instances
    mixes["random"] = random_mix(given["gpu"], given["gpus"], budget, KINDS, given["seed"])
    found = {(str(gpcs), "fifs"): Server((gpcs,) * (budget // gpcs), "fifs") for gpcs in given["alike"]}
    for label, mix in mixes.items():
        rising = tuple(gpcs for gpcs in sorted(mix) for _ in range(mix[gpcs]))
        found[label, "fifs"] = Server(rising, "fifs")
        found[label, "fifs, large first"] = Server(rising[::-1], "fifs")
        found[label, "elsa"] = Server(rising, "elsa")
    return found


def _rows(
    given: Mapping[str, Any], model: str, about: Mapping[str, Any], factor: float, sigma: float
) -> list[dict[str, Any]]:
    times = sources.measured_times(sources.data(about["profile"]))
    batches, percent = given["batches"], given["tail_percent"]
    slowest = {point.batch: point.latency_s for point in times[given["sla_gpcs"]]}[batches["largest"]]
    sla_s = factor * slowest
    queries = Queries(given["queries"], batches["median"], sigma, batches["largest"], sla_s, given["seed"])
    made = servers(given, about, times, queries)
    bounded = {key: bounded_rps(server, times, queries, percent, given["steps"]) for key, server in made.items()}
    reference = next(key for key in made if key[1] == "elsa")
    point = made[reference].run(times, queries, bounded[reference])
    rows = []
    for (slices, policy), server in made.items():
        rps = bounded[slices, policy]
        run = server.run(times, queries, bounded[reference])
        what = summary(run)
        papers = policy == "fifs" and factor == PAPER_FACTOR and sigma == PAPER_SIGMA
        rows.append(
            {
                "model": model,
                "sla_factor": factor,
                "sigma": sigma,
                "slices": slices,
                "policy": policy,
                "sizes": " ".join(f"{server.slices.count(k)}x{k}" for k in KINDS if k in server.slices),
                "bounded_rps": rps,
                "over_gpu7": rps / bounded["7", "fifs"] if bounded["7", "fifs"] else None,
                "share": rps / bounded[reference],
                "paper_share": PAPER_SHARE.get((model, slices)) if papers else None,
                "at_rps": bounded[reference],
                "mean_latency_s": what["mean_latency_s"],
                "tail_ratio": tail_s(run, percent) / tail_s(point, percent),
                "paper_tail_ratio": PAPER_TAIL.get((model, slices)) if papers else None,
                "sla_violation_ratio": what["sla_violation_ratio"],
            }
        )
    return rows


def _bars(name: str, rows: Sequence[dict[str, Any]]) -> None:
    """Throughput over ELSA's, a panel a model, a group a setting; FIFS on a mix in its better order."""
    panels: dict[str, tuple[dict[str, list[float]], dict[str, list[float | None]]]] = {}
    settings = list(dict.fromkeys((row["sla_factor"], row["sigma"]) for row in rows))
    for model in dict.fromkeys(row["model"] for row in rows):
        bars: dict[str, list[float]] = {}
        marks: dict[str, list[float | None]] = {}
        for row in rows:
            alike = row["slices"].isdigit()
            if row["model"] == model and (alike or row["policy"] != "fifs"):
                label = f"{'GPU(' + row['slices'] + ')' if alike else row['slices']} + {row['policy'][:4].upper()}"
                bars.setdefault(label, []).append(row["share"])
                marks.setdefault(label, []).append(row["paper_share"])
        panels[f"{model}: throughput / ELSA's"] = (bars, marks)
    groups = [f"{factor} x,\nsigma {sigma}" for factor, sigma in settings]
    drawing.grouped(name, groups, panels, "the paper's", log=False)


def _shared_rows(name: str, rows: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for row in rows:
        if not row["policy"].endswith("first"):
            place = f"{row['sizes']} ({row['slices']}), {row['at_rps']:.0f} queries/s"
            yield {
                "scenario": f"simulated, MIG paper: {name}, {row['model']}, sigma {row['sigma']}, "
                f"SLA factor {row['sla_factor']}, {place}",
                "policy": row["policy"],
                "mean_latency_s": row["mean_latency_s"],
                "miss_ratio": 0.0,
                "sla_violation_ratio": row["sla_violation_ratio"],
            }


if __name__ == "__main__":
    main()
