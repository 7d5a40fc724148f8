"""Curves as a picture: how utilisation and latency grow with the batch on each slice size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from gpu_manager.core.curves import latencies
from proto.types.errors import SlicewiseError
from proto.types.partitioning import Kind

SUFFIXES = (".pdf", ".png", ".svg")


def plot(kinds: Sequence[Kind], knees: Mapping[int, int], threshold: float, title: str, out: Path) -> None:
    """Draw both curves of each size into `out`, the knees marked; raises SlicewiseError without matplotlib."""
    if out.suffix not in SUFFIXES:
        raise SlicewiseError("bad_request", f"--plot: {out} must end in one of {', '.join(SUFFIXES)}.")
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise SlicewiseError("unavailable", "--plot needs matplotlib: pip install 'slicewise[plot]'.") from error

    figure = Figure(figsize=(10, 4.5), layout="constrained")
    figure.suptitle(title)
    used, slow = figure.subplots(1, 2)
    for kind in kinds:
        batches = range(1, len(kind.utilisation) + 1)
        seconds = latencies(kind)
        at = knees[kind.gpcs]
        (line,) = used.plot(batches, kind.utilisation, label=f"{kind.gpcs}g")
        used.plot([at], [kind.utilisation[at - 1]], marker="o", color=line.get_color())
        slow.plot(batches, seconds, label=f"{kind.gpcs}g", color=line.get_color())
        slow.plot([at], [seconds[at - 1]], marker="o", color=line.get_color())
    used.axhline(threshold, color="grey", linestyle="--", linewidth=1)
    used.set(xlabel="batch size", ylabel="utilisation", xscale="log", ylim=(0, 1.05))
    slow.set(xlabel="batch size", ylabel="seconds a call", xscale="log", yscale="log")
    for axes in (used, slow):
        axes.set_xscale("log", base=2)
        axes.grid(alpha=0.3)
        axes.legend(title="slice; dot: knee")
    try:
        figure.savefig(out)
    except OSError as error:
        raise SlicewiseError("bad_request", f"--plot: {out} cannot be written ({error}).") from error
