"""`slicewise pool`: which slices serve which functions."""

from __future__ import annotations

import json

import click

from slicewise.commands.options import connect, gateway_option, json_option, pairs
from slicewise.commands.output import table

_PATH = "/system/scheduler/pools"


@click.group("pool")
def pool_command() -> None:
    """Show or set the pools of slices: shared, or reserved:FUNCTION."""


@pool_command.command("list")
@json_option
@gateway_option
def list_(as_json: bool, gateway: str | None) -> None:
    """Print every slice with its pool."""
    _show(connect(gateway).system("GET", _PATH).json(), as_json)


@pool_command.command("set")
@click.argument("pools", nargs=-1, required=True, metavar="SLICE=POOL...")
@json_option
@gateway_option
def set_(pools: tuple[str, ...], as_json: bool, gateway: str | None) -> None:
    """Put slices into pools, all of them or none.

    POOL is shared, or reserved:FUNCTION; a slice changes its pool when what runs there for others has ended.
    """
    _show(connect(gateway).system("PUT", _PATH, body=pairs("SLICE=POOL", pools)).json(), as_json)


def _show(pools: dict[str, str], as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(pools))
    else:
        table(("Slice", "Pool"), list(pools.items()))
