"""How many requests a second are simulated, from the document to the summary, by policy on 12 slices.

Processor time, so that what else runs on the machine counts little. `--day` adds a day of 200 functions of Azure
Functions 2019, where that sample lies beside the checkout.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

from benchmarks.report import write
from benchmarks.reproduce import recipe, sources
from simulator.engine import simulate
from simulator.report import summary
from simulator.scenario import policy_of, scenario

REQUESTS = 50_000
_NOTES = """
Seconds of processor time: `read_s` checks the document and draws what it draws, `simulate_s` runs it, `report_s` sums
up; `requests_per_s` is over all three. Aim: 30,000 a second. `paper` is the LALB paper's setting (35 models, Zipf 0.9,
325 requests a minute, which LB and ELSA cannot keep up with); `preloaded` six models on slices of 1, 2, 3 and 7 GPCs
below their capacity. `azure day` has every invocation of the sample, 200 models whose times are a tenth of the assumed
ones of the LALB figures, so that 12 slices can do it.

**The aim is missed by about half.** Of the 58 microseconds that a request of `paper` takes under LALB once it is read,
46 are inside the scheduler's core, the code that serves live; of the 54 of ELSA's 45. The simulator's own 9 to 12 (21
under LB, which loads most of the time) and the 12 or so to read and sum up would allow about 40,000 a second if
decisions cost nothing. Where requests come faster than slices serve them, ELSA walks queues that grow without end.
"""


def paper() -> dict[str, Any]:
    """The LALB paper's setting, longer."""
    models = {
        f"m{n}": {
            "memory_gb": 1.3 + 2.7 * (n * 17 % 35) / 34,
            "load_s": 2.4 + 1.7 * (n * 17 % 35) / 34,
            "infer_s": {"fixed": 1.3, "per_item": 0.0},
        }
        for n in range(35)
    }
    slices = [{"id": f"g{n}", "gpcs": 7, "memory_gb": 8.0} for n in range(12)]
    trace = {"rate_rps": 325 / 60, "requests": REQUESTS, "models": {"zipf": 0.9}, "sla_s": 10.0}
    return {"slices": slices, "models": models, "requests": {"trace": trace}}


def preloaded() -> dict[str, Any]:
    """ELSA's setting: slices of several sizes, nothing loads."""
    sizes = (1, 1, 1, 1, 2, 2, 2, 3, 3, 3, 7, 7)
    table = {str(k): {"1": 0.005, "32": 0.08 / k} for k in (1, 2, 3, 7)}
    models = {f"m{n}": {"memory_gb": 1.0, "load_s": 1.0, "infer_s": {"table": table}} for n in range(6)}
    slices = [{"id": f"g{n}", "gpcs": k, "memory_gb": 8.0} for n, k in enumerate(sizes)]
    batches = {"lognormal": {"median": 4, "sigma": 0.9, "max": 32}}
    trace = {"rate_rps": 1100, "requests": REQUESTS, "batches": batches, "sla_s": 0.03}
    return {"preloaded": True, "slices": slices, "models": models, "requests": {"trace": trace}}


def azure_day() -> dict[str, Any]:
    """Every function and every minute of the sample."""
    given = sources.figure("lalb-working-sets")
    counts = sources.invocations(sources.data(given["popularity"]["trace"]))
    kinds = list(sources.substitute_models(sources.data(given["models"]), speed=10).values())
    models = {f"f{n}": kinds[n % len(kinds)] for n in range(len(counts))}
    slices = [{"id": f"g{n}", "gpcs": 7, "memory_gb": 8.0} for n in range(12)]
    return recipe.paper_scenario(counts, models, slices, None, seed=0)


def measure(name: str, document: dict[str, Any], policy: str) -> dict[str, Any]:
    """One row."""
    begun = time.process_time()
    made = scenario(document)
    read = time.process_time()
    run = simulate(made, policy_of({"name": policy}))
    simulated = time.process_time()
    what = summary(run)
    done = time.process_time()
    return {
        "scenario": name,
        "policy": policy,
        "slices": len(made.slices),
        "requests": what["requests"],
        "read_s": read - begun,
        "simulate_s": simulated - read,
        "report_s": done - simulated,
        "requests_per_s": what["requests"] / (done - begun),
        "mean_latency_s": what["mean_latency_s"],
        "miss_ratio": what["miss_ratio"],
    }


def main() -> None:
    """Write results/simulator-speed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--day", action="store_true")
    day = parser.parse_args().day
    rows = [measure("paper", paper(), policy) for policy in ("lb", "lalb", "elsa")]
    rows += [measure("preloaded", preloaded(), policy) for policy in ("fifs", "lalb", "elsa")]
    if day:
        rows.append(measure("azure day", azure_day(), "lalb"))
    write("simulator-speed", "How fast the simulator is", rows, _NOTES)


if __name__ == "__main__":
    main()
