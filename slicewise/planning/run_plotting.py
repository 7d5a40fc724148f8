"""Simulated runs as a picture: how long requests took under each policy, and what each slice did and held."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from proto.types.errors import SlicewiseError
from simulator.engine import Run
from simulator.node import Stay
from simulator.report import percentile, summary
from slicewise.planning.plotting import SUFFIXES

_NS = 1e9
_COLOURED = 9  # the most requested models have a colour each, the others one together
_REST = "lightgrey"
_DOES, _HOLDS = 0.5, 0.36  # shares of a slice's row
_TALLEST_IN = 80.0

_Span = tuple[float, float]  # seconds: (begin, length)


def plot_runs(runs: Sequence[tuple[str, Run]], out: Path) -> None:
    """Draw (name, run) of one scenario into `out`: latencies of all as CDFs, below them a timeline a run.

    Raises SlicewiseError without matplotlib, or when `out` cannot be written.
    """
    if out.suffix not in SUFFIXES:
        raise SlicewiseError("bad_request", f"--plot: {out} must end in one of {', '.join(SUFFIXES)}.")
    try:
        from matplotlib.figure import Figure
        from matplotlib.patches import Patch
    except ImportError as error:
        raise SlicewiseError("unavailable", "--plot needs matplotlib: pip install 'slicewise[plot]'.") from error

    scenario = runs[0][1].scenario
    row_in = 0.8 + 0.32 * len(scenario.slices)
    height = min(4.2 + row_in * len(runs), _TALLEST_IN)
    figure = Figure(figsize=(13, height), layout="constrained")
    top, *timelines = figure.subplots(1 + len(runs), 1, height_ratios=[3.2] + [row_in] * len(runs))
    _draw_latencies(top, runs)
    colours = _colours(runs[0][1])
    end_s = max(run.makespan_ns for _, run in runs) / _NS or 1.0
    for axes, (name, run) in zip(timelines, runs, strict=True):
        _draw_timeline(axes, run, colours, end_s)
        numbers = summary(run)
        if numbers["requests"]:
            name += f": mean {numbers['mean_latency_s']:.3g} s, {100 * numbers['miss_ratio']:.3g} % misses"
        axes.set_title(name, loc="left", fontsize="medium", fontweight="bold")
    timelines[-1].set_xlabel("seconds")
    keys = [Patch(color=colour, label=model) for model, colour in colours.items()]
    if len(colours) < len({r.model for r in scenario.requests}):
        keys.append(Patch(color=_REST, label="other models"))
    keys.append(Patch(facecolor="dimgrey", label="runs it (upper bar)"))
    keys.append(Patch(facecolor="white", edgecolor="dimgrey", hatch="/////", label="loads it (upper bar)"))
    keys.append(Patch(facecolor="dimgrey", alpha=0.55, label="holds it (strips below)"))
    figure.legend(handles=keys, loc="outside right center", title="models, most requested first")
    try:
        figure.savefig(out, dpi=120)
    except OSError as error:
        raise SlicewiseError("bad_request", f"--plot: {out} cannot be written ({error}).") from error


def _draw_latencies(axes: Any, runs: Iterable[tuple[str, Run]]) -> None:
    for name, run in runs:
        pairs = zip(run.scenario.requests, run.works, strict=True)
        ordered = sorted(work.finish_ns - r.at_ns for r, work in pairs)
        if not ordered:
            continue
        shares = [place / len(ordered) for place in range(1, len(ordered) + 1)]
        p50, p95 = percentile(ordered, 50) / _NS, percentile(ordered, 95) / _NS
        (line,) = axes.step(
            [ns / _NS for ns in ordered], shares, where="post", label=f"{name}: p50 {p50:.3g} s, p95 {p95:.3g} s"
        )
        axes.plot([p50, p95], [0.5, 0.95], linestyle="", marker="o", color=line.get_color())
    axes.set(xlabel="latency in seconds (dots: p50, p95)", ylabel="share of requests", ylim=(0, 1.02))
    if all(line.get_xdata()[0] > 0 for line in axes.lines):
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter("{x:g}")
    axes.grid(alpha=0.3)
    if axes.lines:
        axes.legend(loc="lower right")


def _colours(run: Run) -> dict[str, Any]:
    """Of the models requested most, in that order."""
    from matplotlib import colormaps

    asked = Counter(r.model for r in run.scenario.requests)
    palette = [colour for place, colour in enumerate(colormaps["tab10"].colors) if place != 7]  # type: ignore[attr-defined]  # 7 is grey
    return dict(zip((model for model, _ in asked.most_common(_COLOURED)), palette, strict=False))


def _draw_timeline(axes: Any, run: Run, colours: Mapping[str, Any], end_s: float) -> None:
    """A row a slice: above what it does, below what it holds, each copy in a strip of its own."""
    requests = run.scenario.requests
    index = {g.id: place for place, g in enumerate(run.scenario.slices)}
    runs: dict[tuple[int, Any], list[_Span]] = defaultdict(list)
    loads: dict[tuple[int, Any], list[_Span]] = defaultdict(list)
    holds: dict[tuple[float, float, Any], list[_Span]] = defaultdict(list)
    for r, work in zip(requests, run.works, strict=True):
        key = (index[work.bind.slice], colours.get(r.model, _REST))
        if work.load_ns:
            loads[key].append((work.start_ns / _NS, work.load_ns / _NS))
        runs[key].append(((work.start_ns + work.load_ns) / _NS, work.infer_ns / _NS))
    for (row, colour), spans in loads.items():
        axes.broken_barh(
            spans, (row, _DOES), facecolor="white", edgecolor=colour if colour != _REST else "grey", hatch="/////",
            linewidth=0.5,
        )  # fmt: skip
    for (row, colour), spans in runs.items():
        axes.broken_barh(spans, (row, _DOES), facecolor=colour)
    for row, stays in enumerate(run.stays):
        strips, count = _strips(stays)
        for stay, strip in zip(stays, strips, strict=True):
            until_s = (run.makespan_ns if stay.to_ns is None else stay.to_ns) / _NS
            low = row + _DOES + _HOLDS * strip / count
            holds[low, _HOLDS / count, colours.get(stay.model, _REST)].append(
                (stay.from_ns / _NS, until_s - stay.from_ns / _NS)
            )
    for (low, high, colour), spans in holds.items():
        axes.broken_barh(spans, (low, high), facecolor=colour, alpha=0.55)
    axes.set(xlim=(0, end_s), ylim=(len(index), -0.1))
    axes.set_yticks([row + _DOES / 2 for row in range(len(index))], list(index))
    axes.tick_params(axis="y", length=0)
    for row in range(1, len(index)):
        axes.axhline(row - 0.07, color="gainsboro", linewidth=0.6)


def _strips(stays: Sequence[Stay]) -> tuple[list[int], int]:
    """(the strip of each stay, how many there are): the lowest that is free when it begins."""
    free_ns: list[float] = []
    found = []
    for stay in stays:
        strip = next((place for place, ns in enumerate(free_ns) if ns <= stay.from_ns), len(free_ns))
        free_ns[strip : strip + 1] = [float("inf") if stay.to_ns is None else stay.to_ns]
        found.append(strip)
    return found, len(free_ns) or 1
