"""`slicewise list`, `describe`, `remove` and `scale`."""

from __future__ import annotations

import json
from typing import Any

import click

from slicewise.commands.options import connect, gateway_option, in_namespace, json_option, namespace_option
from slicewise.commands.output import size, table

WHY = "com.slicewise.why"
_GPU = "com.slicewise.gpu"
_INTERPOSE = "com.slicewise.interpose"


@click.command("list")
@click.option("--quiet", "-q", is_flag=True, help="Names only.")
@json_option
@namespace_option
@gateway_option
def list_command(quiet: bool, as_json: bool, namespace: str, gateway: str | None) -> None:
    """List functions."""
    functions = connect(gateway).system("GET", "/system/functions", in_namespace(namespace)).json()
    functions.sort(key=lambda item: item["name"])
    if as_json:
        click.echo(json.dumps(functions))
    elif quiet:
        for item in functions:
            click.echo(item["name"])
    else:
        table(
            ("Function", "Invocations", "Replicas", "Ready", "Image"),
            [
                (
                    item["name"],
                    int(item.get("invocationCount", 0)),
                    item.get("replicas", 0),
                    item.get("availableReplicas", 0),
                    item.get("image", ""),
                )
                for item in functions
            ],
        )


@click.command("describe")
@click.argument("name")
@json_option
@namespace_option
@gateway_option
def describe_command(name: str, as_json: bool, namespace: str, gateway: str | None) -> None:
    """Show one function, and why it is not ready."""
    target = connect(gateway)
    name, namespace = _split(name, namespace)
    query = {**in_namespace(namespace), "usage": "true"}
    function: dict[str, Any] = target.system("GET", f"/system/function/{name}", query).json()
    if as_json:
        click.echo(json.dumps(function))
        return
    replicas, ready = function.get("replicas", 0), function.get("availableReplicas", 0)
    # The gateway tells there why a replica is not ready; FunctionStatus has no field for it.
    annotations = function.get("annotations") or {}
    why = annotations.pop(WHY, "")
    gpu = (function.get("labels") or {}).get(_GPU) or annotations.get(_GPU, "") or "no"
    if gpu != "no" and annotations.get(_INTERPOSE) == "false":
        gpu += f", but not interposed ({_INTERPOSE} is false): it runs as without Slicewise"
    status = "Ready" if ready else "Scaled to zero" if not replicas else "Not ready"
    suffix = f".{namespace}" if namespace else ""
    rows: list[tuple[str, object]] = [
        ("Name", name),
        ("Namespace", function.get("namespace", "")),
        ("Status", status),
        *([("Why", why)] if why else []),
        ("Replicas", replicas),
        ("Available", ready),
        ("GPU", gpu),
        ("Image", function.get("image", "")),
        ("Process", function.get("envProcess", "") or "(the image's)"),
        ("URL", f"{target.url}/function/{name}{suffix}"),
        ("Created", function.get("createdAt", "")),
    ]
    usage = function.get("usage")
    if usage:
        rows.append(("CPU", f"{usage.get('cpu', 0):.0f} millicores"))
        rows.append(("Memory", size(usage.get("totalMemoryBytes", 0))))
    for title, key in (
        ("Labels", "labels"),
        ("Annotations", "annotations"),
        ("Environment", "envVars"),
        ("Limits", "limits"),
        ("Requests", "requests"),
    ):
        rows += [
            (title if not index else "", f"{key_}: {value}")
            for index, (key_, value) in enumerate(sorted((function.get(key) or {}).items()))
        ]
    rows += [("Secrets" if not index else "", secret) for index, secret in enumerate(function.get("secrets") or [])]
    for title, value in rows:
        click.echo(f"{title + ':' if title else '':<14}{value}")


@click.command("remove")
@click.argument("name")
@namespace_option
@gateway_option
def remove_command(name: str, namespace: str, gateway: str | None) -> None:
    """Remove a function."""
    name, namespace = _split(name, namespace)
    body = {"functionName": name, **in_namespace(namespace)}
    connect(gateway).system("DELETE", "/system/functions", in_namespace(namespace), body)
    click.echo(f"Removed {name}")


@click.command("scale")
@click.argument("name")
@click.argument("replicas", type=click.IntRange(min=0))
@namespace_option
@gateway_option
def scale_command(name: str, replicas: int, namespace: str, gateway: str | None) -> None:
    """Set a function's number of replicas; 0 puts it to sleep until its next call."""
    name, namespace = _split(name, namespace)
    body = {"serviceName": name, "replicas": replicas, **in_namespace(namespace)}
    connect(gateway).system("POST", f"/system/scale-function/{name}", in_namespace(namespace), body)
    click.echo(f"Scaled {name} to {replicas}")


def _split(name: str, namespace: str) -> tuple[str, str]:
    """NAME.NAMESPACE as OpenFaaS writes it; the flag wins."""
    first, dot, last = name.rpartition(".")
    return (first, namespace or last) if dot else (name, namespace)
