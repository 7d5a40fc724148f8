"""`slicewise models`: what the platform has learned of each model, and where it is warm."""

from __future__ import annotations

import json
from typing import Any

import click

from slicewise.commands.options import connect, gateway_option, json_option
from slicewise.commands.output import size, table


@click.command("models")
@json_option
@gateway_option
def models_command(as_json: bool, gateway: str | None) -> None:
    """List models and where they are cached."""
    answer = connect(gateway).system("GET", "/system/models").json()
    models: list[dict[str, Any]] = answer["models"] if isinstance(answer, dict) else answer
    if as_json:
        click.echo(json.dumps(models))
        return
    table(
        ("Digest", "Function", "Bytes", "Load", "Cached on"),
        [
            (
                str(item.get("digest", ""))[:12],
                item.get("function", ""),
                size(item.get("bytes", 0)),
                f"{item['load_s']:.3f} s" if item.get("load_s") else "-",
                ", ".join(item.get("cached") or []) or "-",
            )
            for item in models
        ],
    )
