"""`slicewise chain`: large models as chains of servers that each hold some of its blocks, planned and simulated."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from proto.types.errors import SlicewiseError
from scheduler.core.chains.planning import ChainPlan, plan
from scheduler.core.chains.tuning import tune
from slicewise.commands.options import json_option
from slicewise.commands.output import table
from slicewise.planning.chain_file import ChainFile, read_chain_file

_POLICIES = ("jffc", "jsq", "jiq", "sed", "sa-jsq")


@click.group("chain")
def chain_command() -> None:
    """Plan and simulate chains of servers for a model that no server holds alone."""


@chain_command.command("plan")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--plot", "picture", type=click.Path(path_type=Path), help="Draw the plan into a .png, .svg or .pdf.")
@json_option
def plan_(file: Path, picture: Path | None, as_json: bool) -> None:
    """Place the blocks of FILE on its servers and find the chains through them."""
    given = read_chain_file(file)
    made = make_plan(given)
    _warn(given, made)
    if picture is not None:
        from slicewise.planning.chain_plotting import plot_chains

        plot_chains(given.service, given.servers, made, picture)
    if as_json:
        click.echo(json.dumps(plan_document(given, made)))
    else:
        _show(given, made)


@chain_command.command("simulate")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--policy", type=click.Choice(_POLICIES), default="jffc", show_default=True)
@click.option("--jobs", type=click.IntRange(min=1), default=100_000, show_default=True, help="How many jobs arrive.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)
@json_option
def simulate(file: Path, policy: str, jobs: int, seed: int, as_json: bool) -> None:
    """Plan FILE, then let jobs arrive at its chains: a Poisson stream, sizes Exp(1).

    All gaps between arrivals are drawn first, then all sizes, then what a policy draws to break ties, so one seed
    gives every policy the same jobs. Means and percentiles are over all jobs, the first ones on empty chains included.
    """
    from simulator.chains.policies import make_policy
    from simulator.chains.queueing import poisson_jobs, simulate_chains
    from simulator.chains.summary import summary

    given = read_chain_file(file)
    made = make_plan(given)
    _warn(given, made)
    arrivals, random = poisson_jobs(given.service.rate_rps, jobs, seed)
    records = simulate_chains(made.chains, make_policy(policy, made.chains, random), arrivals) if made.chains else []
    measured = summary(records)
    if as_json:
        click.echo(json.dumps({**plan_document(given, made), **measured}))
    else:
        _show(given, made)
        for key, value in measured.items():
            click.echo(f"{key}: {'-' if value is None else f'{value:.6g}'}")


def make_plan(given: ChainFile) -> ChainPlan:
    """The plan for the file's c, or for the best one; raises SlicewiseError `bad_request` if no c serves the rate."""
    if given.c is not None:
        return plan(given.service, given.servers, given.c)
    found = tune(given.service, given.servers, given.tune_by)
    if found is None:
        text = f"rate_rps: no c gives chains that serve {given.service.rate_rps:g} jobs a second"
        raise SlicewiseError("bad_request", f"{text} by {given.tune_by}; lower rate_rps, or add servers or memory.")
    return found


def _warn(given: ChainFile, made: ChainPlan) -> None:
    """Say on stderr what the plan cannot do."""
    service = given.service
    if not made.chains:
        text = f"c: no chain of servers holds all {service.blocks} blocks and the caches of {made.c} jobs"
        click.echo(f"slicewise: {text}; lower c, or add servers or memory.", err=True)
    elif made.bounds is None:
        text = f"rate_rps: {service.rate_rps:g} is not below the {made.total_rate_rps:g} that the chains can serve"
        click.echo(f"slicewise: {text}, so the queue grows without end; lower it or add servers.", err=True)


def plan_document(given: ChainFile, made: ChainPlan) -> dict[str, Any]:
    """The plan as the contract writes it."""
    ids = [server.id for server in given.servers]
    return {
        "c": made.c,
        "placement": [
            {"server": ids[node.server], "first_block": node.first, "blocks": node.blocks} for node in made.placement
        ],
        "chains": [
            {"servers": [ids[j] for j in chain.servers], "time_s": chain.time_s, "capacity": chain.capacity}
            for chain in made.chains
        ],
        "total_rate_rps": made.total_rate_rps,
        "bounds": {
            "lower_s": None if made.bounds is None else made.bounds.lower_s,
            "upper_s": None if made.bounds is None else made.bounds.upper_s,
        },
        "disjoint_chains": made.disjoint_chains,
    }


def _show(given: ChainFile, made: ChainPlan) -> None:
    ids = [server.id for server in given.servers]
    table(("Server", "Blocks"), [(ids[node.server], f"{node.first}-{node.last}") for node in made.placement])
    click.echo()
    table(
        ("Chain", "Seconds", "Jobs at once"),
        [(" > ".join(ids[j] for j in chain.servers), f"{chain.time_s:.6g}", chain.capacity) for chain in made.chains],
    )
    click.echo()
    click.echo(f"c {made.c}, {made.total_rate_rps:.6g} jobs a second in all, {given.service.rate_rps:g} arrive")
    if made.bounds is not None:
        click.echo(f"Mean response time from {made.bounds.lower_s:.6g} to {made.bounds.upper_s:.6g} s under jffc")
