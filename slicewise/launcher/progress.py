"""What a person sees while the platform comes up: a live list on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from typing import Any, Protocol

Document = Mapping[str, Any]
_MARKS = {"ready": "[green]ready[/green]", "restarting": "[yellow]restarting[/yellow]", "stopped": "[red]stopped[/red]"}


class Display(Protocol):
    """Shown the board again and again until `close`."""

    def show(self, document: Document) -> None:
        """The board as it is now."""

    def close(self) -> None:
        """Leave the last state on the screen."""


def display() -> Display:
    """The display for this stderr; progress never goes to stdout."""
    return Live() if sys.stderr.isatty() else Lines()


class Lines:
    """One line whenever a process changes its state."""

    def __init__(self) -> None:
        self._shown: dict[str, str] = {}

    def show(self, document: Document) -> None:
        """Print what is new."""
        for name, entry in document.get("processes", {}).items():
            state = entry["state"]
            if self._shown.get(name) == state or state in ("waiting", "starting", "stopped"):
                continue
            self._shown[name] = state
            print(f"{name}: {_words(entry)}", file=sys.stderr, flush=True)

    def close(self) -> None:
        """Nothing is left open."""


class Live:
    """A table that is redrawn in place."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.live import Live as RichLive

        self._live = RichLive(console=Console(stderr=True, highlight=False), refresh_per_second=8)
        self._live.start()

    def show(self, document: Document) -> None:
        """Redraw."""
        from rich.table import Table

        table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
        for name, entry in document.get("processes", {}).items():
            state = entry["state"]
            table.add_row(name, _MARKS.get(state, f"[dim]{state}[/dim]"), _detail(entry))
        self._live.update(table)

    def close(self) -> None:
        """Leave the table."""
        self._live.stop()


def _words(entry: Mapping[str, Any]) -> str:
    detail = _detail(entry)
    return f"{entry['state']} ({detail})" if detail else str(entry["state"])


def _detail(entry: Mapping[str, Any]) -> str:
    if entry["state"] == "ready" and entry["ready"]:
        return f"{entry['ready'] - entry['started']:.1f} s"
    if entry["state"] == "starting" and entry["started"]:
        return f"{max(0.0, time.time() - entry['started']):.0f} s"
    return str(entry["error"]) if entry["state"] in ("restarting", "stopped") else ""
