"""`slicewise logs`: what a function's replicas printed."""

from __future__ import annotations

import datetime
import json
import re

import click

from proto.types.errors import SlicewiseError
from slicewise.commands.options import connect, gateway_option, in_namespace, namespace_option

_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_UNIT_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
# A followed log may be silent for long; the gateway ends the stream, not we.
_FOLLOW_TIMEOUT_S = 24 * 3600.0
_TIMEOUT_S = 60.0


@click.command("logs")
@click.argument("name")
@click.option("--follow", "-f", is_flag=True, help="Go on until interrupted.")
@click.option("--tail", "--lines", "tail", type=int, default=-1, metavar="N", help="Only the last N lines.")
@click.option("--since", default="", help="A duration (5m) or a time (RFC 3339).")
@click.option("--instance", default="", help="Only this replica.")
@click.option("--output", "-o", type=click.Choice(["plain", "text", "json"]), default="text", show_default=True)
@namespace_option
@gateway_option
def logs_command(
    name: str, follow: bool, tail: int, since: str, instance: str, output: str, namespace: str, gateway: str | None
) -> None:
    """Show what function NAME printed. `plain` prints its own text only."""
    target = connect(gateway)
    first, dot, last = name.rpartition(".")
    name, namespace = (first, namespace or last) if dot else (name, namespace)
    query = {"name": name, "tail": str(tail), "follow": "true" if follow else "false", **in_namespace(namespace)}
    if since:
        query["since"] = _time(since)
    if instance:
        query["instance"] = instance
    timeout_s = _FOLLOW_TIMEOUT_S if follow else _TIMEOUT_S
    with target.stream("GET", "/system/logs", query, target.authorized(), timeout_s=timeout_s) as answer:
        if answer.status >= 400:
            text = answer.read().decode(errors="replace").strip()
            raise SlicewiseError("not_found" if answer.status in (404, 501) else "unavailable", text or answer.reason)
        for line in answer:
            if line.strip():
                click.echo(_shown(line.decode(errors="replace").rstrip("\n"), output))


def _shown(line: str, output: str) -> str:
    if output == "json":
        return line
    record = json.loads(line)
    if output == "plain":
        return str(record["text"]).rstrip("\n")
    return f"{record['timestamp']} {record['name']} ({record.get('instance', '')}) {str(record['text']).rstrip()}"


def _time(text: str) -> str:
    """RFC 3339 with zone, as the gateway wants it."""
    position, seconds = 0, 0.0
    for part in _PART.finditer(text):
        if part.start() != position:
            break
        seconds += float(part[1]) * _UNIT_S[part[2]]
        position = part.end()
    if text and position == len(text):
        return (datetime.datetime.now(datetime.UTC) - datetime.timedelta(seconds=seconds)).isoformat()
    try:
        moment = datetime.datetime.fromisoformat(text)
    except ValueError as error:
        raise SlicewiseError("bad_request", f"--since: {text!r} is no duration (5m) and no time (RFC 3339).") from error
    return (moment if moment.tzinfo else moment.astimezone()).isoformat()
