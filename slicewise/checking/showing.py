"""A check for people: what runs where, what fails and what to do, bytes, outputs, seconds."""

from __future__ import annotations

import sys
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from slicewise.commands.output import size

_DIGITS = 12
_WIDTH = 120  # where nobody says how wide it is


def show(document: dict[str, Any], console: Console | None = None) -> None:
    """Print the document."""
    out = console or Console(highlight=False, soft_wrap=True, width=None if sys.stdout.isatty() else _WIDTH)
    _models(out, document)
    for failure in document["failures"]:
        out.print(f"\n[bold red]fails[/bold red] ({failure['stage']}): {escape(failure['error'])}")
        for frame in failure["frames"]:
            where = f"{frame['file']}:{frame['line']}" + (f" in {frame['function']}" if frame["function"] else "")
            where += ", on the slice" if frame["on_slice"] else ""
            out.print(f"  [dim]{escape(where)}[/dim]  {escape(frame['code'])}")
        if failure["fix"]:
            out.print(f"  [bold]fix[/bold] {escape(failure['fix'])}")
    for note in document["notes"]:
        out.print(f"\n[yellow]note[/yellow] {escape(note['note'])}")
        if note["fix"]:
            out.print(f"  {escape(note['fix'])}")
    out.print()
    _memory(out, document["memory"])
    _outputs(out, document["outputs"])
    _seconds(out, document["seconds"])
    out.print()
    if document["ok"]:
        out.print("[bold green]Fine:[/bold green] it can be deployed with the GPU flag.")
    else:
        count = len(document["failures"])
        out.print(f"[bold red]{count} {'thing fails' if count == 1 else 'things fail'}.[/bold red]")


def _models(out: Console, document: dict[str, Any]) -> None:
    if not document["models"]:
        return
    table = Table(title="What runs on a slice", title_justify="left", box=None, padding=(0, 2, 0, 0))
    for column in ("Model", "Digest", "Kind", "Tensors", "Bytes", "Method", "Calls", "Failed", "Median"):
        table.add_column(
            column, justify="right" if column in ("Tensors", "Bytes", "Calls", "Failed", "Median") else "left"
        )
    for model in document["models"]:
        about = (
            escape(model["class"]),
            model["digest"][:_DIGITS],
            model["kind"],
            str(model["tensors"] if model["tensors"] is not None else "-"),
            size(model["bytes"]),
        )
        if not model["methods"]:
            table.add_row(*about, "[yellow]never called[/yellow]", "0", "0", "-")
        for number, method in enumerate(model["methods"]):
            first = about if number == 0 else ("",) * len(about)
            median = _time(method["median_s"])
            table.add_row(*first, escape(method["method"]), str(method["calls"]), str(method["failed"]), median)
    out.print(table)


def _memory(out: Console, memory: dict[str, Any]) -> None:
    if memory["fits"] is None:
        return
    if memory["peak_bytes"]:
        out.print(f"memory   {size(memory['held_bytes'])} after load, {size(memory['peak_bytes'])} while it serves")
    kinds: dict[tuple[int, int, bool], int] = {}
    for item in memory["slices"]:
        key = (item["gpcs"], item["memory_bytes"], item["fits"])
        kinds[key] = kinds.get(key, 0) + 1
    for (gpcs, total, fits), count in kinds.items():
        verdict = "[green]fits[/green]" if fits else "[red]does not fit[/red]"
        out.print(
            f"         {verdict} {count}x{gpcs}g:{size(total).replace(' ', '')} ({escape(memory['slices_from'])})"
        )


def _outputs(out: Console, outputs: dict[str, Any]) -> None:
    if outputs["same"]:
        count = outputs["compared"]
        out.print(f"outputs  the same as in a local run ({count} {'call' if count == 1 else 'calls'})")
    elif outputs["difference"]:
        out.print(f"outputs  {escape(outputs['difference'])}")
    elif outputs["local_run"]:
        out.print(f"outputs  not compared; local run: {escape(outputs['local_run'])}")


def _seconds(out: Console, seconds: dict[str, Any]) -> None:
    if seconds["cold"] is not None:
        load = f" ({_time(seconds['cold_load'])} of it load)" if seconds["cold_load"] else ""
        out.print(f"seconds  first call {_time(seconds['cold'])}{load}, locally {_time(seconds['local_first'])}")
    if seconds["warm_median"] is not None:
        inside = f" ({_time(seconds['warm_on_slice_median'])} on the slice)" if seconds["warm_on_slice_median"] else ""
        local = _time(seconds["local_warm_median"])
        out.print(f"         warm {_time(seconds['warm_median'])}{inside}, locally {local}; medians")
    if seconds["import"] is not None:
        share = f"{100 * seconds['import_interposition_share']:.0f} %"
        text = f"import {_time(seconds['import'])} with torch there already, {_time(seconds['import_interposition'])} "
        out.print(
            f"         {text}({share}) of it interposition: {_time(seconds['import_activation'])} to switch it on,"
        )
        out.print(f"         {_time(seconds['import_registration'])} to register models")


def _time(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    return f"{seconds * 1000:.1f} ms" if seconds < 1 else f"{seconds:.2f} s"
