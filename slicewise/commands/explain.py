"""`slicewise explain`: why a call went to its slice, what the scheduler chose among, and what became of it."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import click

from slicewise.commands.options import connect, gateway_option, json_option
from slicewise.commands.output import duration, size

if TYPE_CHECKING:
    from rich.console import Console

_WIDTH = 120  # where nobody says how wide it is


@click.command("explain")
@click.argument("call_id", metavar="CALL-ID")
@json_option
@gateway_option
def explain_command(call_id: str, as_json: bool, gateway: str | None) -> None:
    """Explain the placement of a call; CALL-ID is the X-Call-Id of its answer.

    The scheduler keeps its last placements only (its setting `recent`); an older call is forgotten.
    """
    path = f"/system/scheduler/explain/{quote(call_id, safe='')}"
    document: dict[str, Any] = connect(gateway).system("GET", path).json()
    if as_json:
        click.echo(json.dumps(document))
        return
    from rich.console import Console

    show(document, Console(highlight=False, soft_wrap=True, width=None if sys.stdout.isatty() else _WIDTH))


def show(document: dict[str, Any], out: Console) -> None:
    """Print the document for people."""
    from rich.markup import escape

    placements = document["placements"]
    out.print(f"Call [bold]{escape(document['call_id'])}[/bold]")
    for number, placement in enumerate(placements, 1):
        title = f"Placement {number} of {len(placements)}, " if len(placements) > 1 else ""
        out.print(f"\n{title}{duration(placement['age_s'])} ago")
        _placement(out, placement)
    waiting, refused = document["waiting"], document["refused"]
    if waiting is not None:
        where = "no slice that is here can hold it" if waiting["parked"] else f"{waiting['ahead']} before it in line"
        out.print(
            f"\n[yellow]waits[/yellow] for a slice since {_s(waiting['waited_s'])}: {where}, "
            f"overtaken {_times(waiting['skips'])}"
        )
    if refused is not None:
        out.print(
            f"\n[red]refused[/red] ({escape(refused['code'])}) after {_s(refused['waited_s'])}, "
            f"{duration(refused['age_s'])} ago: {escape(refused['message'])}"
        )


def _placement(out: Console, p: dict[str, Any]) -> None:
    from rich.markup import escape

    def line(name: str, text: str) -> None:
        out.print(f"  [dim]{name:<12}[/dim]{text}")

    line("slice", f"[bold]{escape(p['slice'])}[/bold]" + (", behind what it had to do already" if p["local"] else ""))
    line("why", f"{escape(p['reason'])} [dim]({escape(p['policy'])})[/dim]")
    line("worker", escape(p["worker"]))
    found = p["found"] or f"{p['expected']} expected"
    line("cache", found if p["found"] in (None, p["expected"]) else f"{found}, {p['expected']} expected")
    line("held by", escape(", ".join(p["holders"])) or "no slice")
    if p["evicted"]:
        line("evicted", escape(", ".join(p["evicted"])))
    elif p["foreseen_victims"]:
        line("expected", f"to evict {escape(', '.join(p['foreseen_victims']))}")
    line("overtaken", _times(p["skips"]))
    line("state", p["state"] + (f" ({escape(p['code'])})" if p["code"] else "") + _why(escape(p["why"])))
    _phases(out, p)
    _considered(out, p)


def _phases(out: Console, p: dict[str, Any]) -> None:
    from rich.table import Table

    estimates = {"loaded": p["estimated"]["load_s"], "inferred": p["estimated"]["turn_s"]}
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("  Phase")
    for title in ("from", "took", "estimated"):
        table.add_column(title, justify="right")
    for phase in p["phases"]:
        name = phase["phase"]
        table.add_row(f"  {name}", _s(phase["from_s"]), _s(phase["took_s"]), _s(estimates.get(name)))
    out.print(table)


def _considered(out: Console, p: dict[str, Any]) -> None:
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0))
    for title in ("  Slice", "was", "held it", "fits"):
        table.add_column(title)
    for title in ("in its queue", "free in", "free memory"):
        table.add_column(title, justify="right")
    for g in p["considered"]:
        name = escape(g["slice"])
        table.add_row(
            f"> [bold]{name}[/bold]" if g["chosen"] else f"  {name}",
            g["status"],
            "yes" if g["held"] else "no",
            "yes" if g["fits"] else "no",
            str(g["local_queue"]),
            _s(g["free_in_s"]) or "-",
            size(g["free_bytes"]),
        )
    out.print(table)
    others = p["slices"] - len(p["considered"])
    if others > 0:
        out.print(f"  [dim]and {others} more of {p['slices']} slices[/dim]")


def _why(text: str) -> str:
    return f": {text}" if text else ""


def _s(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds:.3f} s"


def _times(count: int) -> str:
    return {0: "never", 1: "once"}.get(count, f"{count} times")
