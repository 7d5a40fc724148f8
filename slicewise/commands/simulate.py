"""`slicewise simulate`: what a policy makes of a scenario, in virtual time, by the code that serves live."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from scheduler.core.policies.base import Policy
from simulator.engine import simulate
from simulator.report import document
from simulator.scenario import policy_of, read_scenario
from slicewise.commands.options import json_option
from slicewise.commands.output import table

_SHOWN = (
    ("mean_latency_s", "Mean (s)"),
    ("p50_latency_s", "p50 (s)"),
    ("p95_latency_s", "p95 (s)"),
    ("p99_latency_s", "p99 (s)"),
    ("miss_ratio", "Misses"),
    ("false_miss_ratio", "False misses"),
    ("mean_duplicates_hottest", "Copies"),
    ("utilisation", "Utilisation"),
    ("sla_violation_ratio", "SLA missed"),
    ("makespan_s", "Makespan (s)"),
)


@click.command("simulate")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--policy", "policies", multiple=True, metavar="NAME", help="Instead of the file's; may be repeated.")
@click.option(
    "--plot",
    "picture",
    type=click.Path(path_type=Path),
    help="Also draw latencies and what slices did and held (.pdf, .png, .svg).",
)
@json_option
def simulate_command(file: Path, policies: tuple[str, ...], picture: Path | None, as_json: bool) -> None:
    """Run the scenario in FILE (JSON or YAML), once for each policy.

    Parameters that the file gives a policy are kept where --policy names the same one. --json also tells what
    became of each request: one document, or an array of them when --policy is repeated.
    """
    scenario = read_scenario(file)
    chosen = [_choose(name, scenario.policy) for name in policies] or [policy_of(scenario.policy)]
    runs = [simulate(scenario, policy) for policy in chosen]
    documents = [document(run) for run in runs]
    if picture is not None:
        from slicewise.planning.run_plotting import plot_runs

        plot_runs([(_named(d["policy"]), run) for d, run in zip(documents, runs, strict=True)], picture)
    if as_json:
        click.echo(json.dumps(documents[0] if len(documents) == 1 else documents))
        return
    rows = [(_named(d["policy"]), *(_number(d["summary"][key]) for key, _ in _SHOWN)) for d in documents]
    click.echo(f"{len(scenario.requests)} requests on {len(scenario.slices)} slices")
    table(("Policy", *(title for _, title in _SHOWN)), rows)


def _choose(name: str, in_file: Mapping[str, Any]) -> Policy:
    return policy_of(in_file if in_file["name"] == name else {"name": name}, "--policy")


def _named(parameters: Mapping[str, Any]) -> str:
    rest = ", ".join(f"{key} {value}" for key, value in parameters.items() if key != "name")
    return f"{parameters['name']} ({rest})" if rest else str(parameters["name"])


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"
