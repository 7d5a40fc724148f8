"""`slicewise policy`: which rule binds invocations to slices; switched while requests wait."""

from __future__ import annotations

import json
from typing import Any

import click

from proto.types.errors import SlicewiseError
from slicewise.commands.options import connect, gateway_option, pairs

_PATH = "/system/scheduler/policy"


@click.group("policy", invoke_without_command=True)
@gateway_option
@click.pass_context
def policy_command(context: click.Context, gateway: str | None) -> None:
    """Show or set the scheduling policy; alone it shows it."""
    if context.invoked_subcommand is None:
        context.invoke(get, gateway=gateway)
    elif gateway:
        context.default_map = {name: {"gateway": gateway} for name in policy_command.commands}


@policy_command.command("get")
@gateway_option
def get(gateway: str | None) -> None:
    """Print the policy with all its parameters, as JSON."""
    click.echo(json.dumps(connect(gateway).system("GET", _PATH).json()))


@policy_command.command("set")
@click.argument("name")
@click.option("--o3-limit", type=click.IntRange(min=0), help="lalb: how often a request may be overtaken.")
@click.option("--alpha", type=float, help="elsa: by how much a predicted latency is multiplied.")
@click.option("--beta", type=float, help="elsa: by how much a call's own time in it is multiplied.")
@click.option("--param", "parameters", multiple=True, metavar="KEY=NUMBER", help="Any other parameter.")
@gateway_option
def set_(name: str, parameters: tuple[str, ...], gateway: str | None, **given: float | None) -> None:
    """Use policy NAME from now on; queued requests stay queued."""
    policy: dict[str, Any] = {"name": name} | {key: value for key, value in given.items() if value is not None}
    for key, text in pairs("--param", parameters).items():
        try:
            policy[key] = json.loads(text)
        except ValueError as error:
            raise SlicewiseError("bad_request", f"--param: {key}={text} is no number.") from error
    click.echo(json.dumps(connect(gateway).system("PUT", _PATH, body=policy).json()))
