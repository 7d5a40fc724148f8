"""Figures as SVG files beside the results, where matplotlib is there (extra: plot)."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.report import RESULTS


def boxes(name: str, groups: Mapping[str, Sequence[float]], marks: Mapping[str, float], mark: str, ylabel: str) -> None:
    """A box a group, and a mark in each: results/NAME.svg."""
    figure = _figure()
    if figure is None:
        return
    axes = figure.subplots()
    axes.boxplot(list(groups.values()), tick_labels=list(groups))
    axes.plot(range(1, len(groups) + 1), [marks[group] for group in groups], "D", label=mark)
    axes.set(ylabel=ylabel)
    axes.tick_params(axis="x", labelrotation=30)
    _save(figure, axes, name)


def lines(
    name: str, xs: Sequence[float], curves: Mapping[str, Sequence[float | None]], xlabel: str, ylabel: str
) -> None:
    """Curves over common xs, None left out: results/NAME.svg."""
    figure = _figure()
    if figure is None:
        return
    axes = figure.subplots()
    for label, ys in curves.items():
        points = [(x, y) for x, y in zip(xs, ys, strict=True) if y is not None]
        style = "--" if label.startswith(("lower", "upper")) else "-"
        axes.plot([x for x, _ in points], [y for _, y in points], style, marker=".", label=label)
    axes.set(xlabel=xlabel, ylabel=ylabel)
    _save(figure, axes, name)


def grouped(
    name: str,
    groups: Sequence[str],
    panels: Mapping[str, tuple[Mapping[str, Sequence[float]], Mapping[str, Sequence[float | None]]]],
    mark: str,
    log: bool = True,
) -> None:
    """Panels of bars, a group for each of `groups` and a bar for each label, marks over some: results/NAME.svg."""
    figure = _figure()
    if figure is None:
        return
    labels = list(dict.fromkeys(label for bars, _ in panels.values() for label in bars))
    shown: dict[str, Any] = {}
    for axes, (title, (bars, marks)) in zip(figure.subplots(1, len(panels)), panels.items(), strict=True):
        width = 0.8 / len(bars)
        for k, (label, heights) in enumerate(bars.items()):
            xs = [n - 0.4 + (k + 0.5) * width for n in range(len(groups))]
            shown[label] = axes.bar(xs, heights, width, color=f"C{labels.index(label)}")
            for x, y in zip(xs, marks.get(label, [None] * len(xs)), strict=True):
                if y is not None:
                    (shown[mark],) = axes.plot([x], [y], "kD", markersize=4)
        axes.set(yscale="log" if log else "linear", ylabel=title, xticks=range(len(groups)), xticklabels=groups)
        axes.grid(alpha=0.3)
    figure.legend(list(shown.values()), list(shown), loc="outside upper center", ncols=4)
    figure.savefig(RESULTS / f"{name}.svg", metadata={"Date": None})


def _figure() -> Any:
    try:
        from matplotlib.figure import Figure
    except ImportError:
        print("Not drawn: matplotlib is not installed.", file=sys.stderr)
        return None
    return Figure(figsize=(8, 4.5), layout="constrained")


def _save(figure: Any, axes: Any, name: str) -> None:
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(RESULTS / f"{name}.svg", metadata={"Date": None})
