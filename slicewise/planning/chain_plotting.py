"""A chain plan as a picture: which server hosts which blocks, and the way that each chain takes through them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from proto.types.errors import SlicewiseError
from scheduler.core.chains.model import Server, Service
from scheduler.core.chains.planning import ChainPlan
from slicewise.planning.plotting import SUFFIXES

_MOST_NAMED = 12  # chains in the legend; further ones are drawn without a name
_BAND = 0.7  # of a row's height
_TALLEST_IN = 60.0


def plot_chains(service: Service, servers: Sequence[Server], made: ChainPlan, out: Path) -> None:
    """Draw into `out`: a row a server in placing order, a bar for its blocks, a line a chain over what it serves.

    Raises SlicewiseError without matplotlib, or when `out` cannot be written.
    """
    if out.suffix not in SUFFIXES:
        raise SlicewiseError("bad_request", f"--plot: {out} must end in one of {', '.join(SUFFIXES)}.")
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise SlicewiseError("unavailable", "--plot needs matplotlib: pip install 'slicewise[plot]'.") from error

    figure = Figure(figsize=(10, min(max(2.5, 1.2 + 0.4 * len(made.placement)), _TALLEST_IN)), layout="constrained")
    axes = figure.subplots()
    rows = {node.server: row for row, node in enumerate(made.placement)}
    last = {node.server: node.last for node in made.placement}
    for node in made.placement:
        axes.barh(
            rows[node.server], node.blocks, left=node.first - 0.5, height=0.8, color="lightgrey", edgecolor="grey"
        )
    for k, chain in enumerate(made.chains):
        # Chains lie side by side within a row, so that those that share a server stay apart.
        lift = _BAND * ((k + 1) / (len(made.chains) + 1) - 0.5)
        xs, ys, done = [], [], 0
        for j in chain.servers:
            xs += [done + 0.5, last[j] + 0.5]
            ys += [rows[j] + lift] * 2
            done = last[j]
        name = f"{chain.time_s:.4g} s, {chain.capacity} at once" if k < _MOST_NAMED else None
        axes.plot(xs, ys, linewidth=2, label=name)
    axes.set(xlabel="block", ylabel="server", xlim=(0.5, service.blocks + 0.5))
    axes.set_title(f"c {made.c}: {len(made.chains)} chains, {made.total_rate_rps:.4g} jobs a second")
    axes.set_yticks(list(rows.values()), [servers[j].id for j in rows])
    axes.invert_yaxis()
    if made.chains:
        axes.legend(title="chain", loc="center left", bbox_to_anchor=(1.01, 0.5))
    try:
        figure.savefig(out)
    except OSError as error:
        raise SlicewiseError("bad_request", f"--plot: {out} cannot be written ({error}).") from error
