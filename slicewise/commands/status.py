"""`slicewise status`: the truth at this moment; exit status 0 only when everything is ready."""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path
from typing import Any

import click

from proto.types.errors import SlicewiseError
from slicewise.commands.options import json_option, state_dir_option
from slicewise.commands.output import duration, size, table


@click.command("status")
@json_option
@state_dir_option
def status_command(as_json: bool, state_dir: Path | None) -> None:
    """Tell whether the platform is down, starting, degraded or ready, and what each process does."""
    from slicewise.launcher.layout import Layout, default_state_dir
    from slicewise.launcher.truth import READY, look

    layout = Layout((state_dir or default_state_dir()).absolute())
    truth = look(layout)
    slices, functions, silence = _ask(layout, truth)
    lacking = _isolation(layout, truth)
    why = "; ".join(part for part in (truth.why, silence) if part)
    state = "degraded" if truth.state == READY and silence else truth.state
    if as_json:
        document = {**dataclasses.asdict(truth), "state": state, "why": why, "slices": slices, "functions": functions}
        document["isolation_missing"] = lacking
        click.echo(json.dumps({**document, "state_dir": str(layout.root)}))
    else:
        _print(layout, state, why, truth, slices, functions)
        _print_isolation(lacking)
    sys.exit(0 if state == READY else 1)


def _ask(layout: Any, truth: Any) -> tuple[list[Any], list[Any], str]:
    """Slices and functions through the gateway, and why they cannot be told if they cannot."""
    from slicewise.client import logins
    from slicewise.client.http import Gateway
    from slicewise.launcher import issuing

    gateway_runs = any(item.name == "gateway" and item.state == "ready" for item in truth.processes)
    if not gateway_runs:
        return [], [], ""
    gateway = Gateway(truth.url, logins.basic(issuing.USER, issuing.read(layout.password)))
    try:
        functions = gateway.system("GET", "/system/functions", timeout_s=5.0).json()
        slices = gateway.system("GET", "/system/scheduler/state", timeout_s=5.0).json()["slices"]
    except SlicewiseError as error:
        return [], [], error.message
    return slices, functions, ""


def _isolation(layout: Any, truth: Any) -> list[str]:
    from slicewise.launcher import isolation, issuing

    running = {item.name for item in truth.processes if item.state == "ready"}
    addresses = {name: port for name, port in truth.addresses.items() if name in running}
    return isolation.missing(addresses, issuing.credential(layout, "cli")) if addresses else []


def _print_isolation(lacking: list[str]) -> None:
    from slicewise.launcher import isolation

    if lacking:
        click.echo(f"\n{isolation.sentence(lacking)}")


def _print(layout: Any, state: str, why: str, truth: Any, slices: list[Any], functions: list[Any]) -> None:
    click.echo(f"Slicewise on {layout.root} is {state}." + (f" {why}" if why else ""))
    if state == "down":
        return
    click.echo(f"gateway {truth.url}, launcher pid {truth.pid}\n")
    table(
        ("Process", "State", "Pid", "Up", "Restarts", "Memory"),
        [
            (
                item.name,
                item.state,
                item.pid or "-",
                duration(item.uptime_s) if item.pid else "-",
                item.restarts,
                size(item.rss_bytes) if item.pid else "-",
            )
            for item in truth.processes
        ],
    )
    if slices:
        click.echo()
        table(
            ("Slice", "Node", "GPCs", "Memory", "Free", "Pool", "Status", "Cached, least recently used first"),
            [
                (
                    item["id"],
                    item.get("node", ""),
                    item.get("gpcs", ""),
                    size(item.get("memory_bytes", 0)),
                    size(item.get("free_bytes", 0)),
                    _pool(item),
                    item.get("status", ""),
                    ", ".join(str(worker.get("key") or worker.get("worker")) for worker in _cached(item)) or "-",
                )
                for item in slices
            ],
        )
    if functions:
        click.echo()
        table(
            ("Function", "Replicas", "Ready"),
            [
                (item["name"], item.get("replicas", 0), item.get("availableReplicas", 0))
                for item in sorted(functions, key=lambda item: str(item["name"]))
            ],
        )


def _pool(item: dict[str, Any]) -> str:
    drains = item.get("moving_to")
    return f"{item.get('pool', '')} (drains for {drains})" if drains else str(item.get("pool", ""))


def _cached(item: dict[str, Any]) -> list[dict[str, Any]]:
    return item.get("cached") or item.get("workers") or []
