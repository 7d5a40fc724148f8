"""`slicewise profile`: measurements of a model become the curves that a partition plan is made from."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import click

from gpu_manager.core import curves, geometry, paris
from proto.types.errors import SlicewiseError
from proto.types.partitioning import Kind
from slicewise.planning import measurements
from slicewise.planning.batch_sizes import log_normal


@click.command("profile")
@click.option(
    "--import",
    "source",
    type=click.Path(path_type=Path),
    required=True,
    help="CSV file of measurements, as ParvaGPU or MIGProfiler write it.",
)
@click.option("--model", default="", help="Which model, if the file has several.")
@click.option("--gpu", type=click.Choice(geometry.gpu_types()), required=True, help="The GPU that was measured.")
@click.option("--gpus", type=click.IntRange(min=1), default=1, show_default=True, help="How many to plan for.")
@click.option("--max-batch", type=click.IntRange(1, 65536), default=32, show_default=True, help="Largest batch.")
@click.option("--median", type=float, default=4.0, show_default=True, help="Median of the log-normal batch sizes.")
@click.option("--sigma", type=float, default=0.9, show_default=True, help="Their logarithm's standard deviation.")
@click.option("--memory-gb", type=float, default=0.0, help="What a worker takes; sizes too small for it are left out.")
@click.option("--plot", "picture", type=click.Path(path_type=Path), help="Draw the curves into a .png, .svg or .pdf.")
def profile_command(
    source: Path,
    model: str,
    gpu: str,
    gpus: int,
    max_batch: int,
    median: float,
    sigma: float,
    memory_gb: float,
    picture: Path | None,
) -> None:
    """Print a file for `slicewise partition plan`, made from measurements.

    A size that was not measured up to the largest batch is left out, and said so.
    """
    if not 0 <= memory_gb < 1e6:
        raise click.UsageError("--memory-gb must be gigabytes, 0 or more.")
    if not (median > 0 and sigma > 0 and log_normal(median, sigma, max_batch)):
        raise click.UsageError(f"--median and --sigma must be above 0 and leave batches from 1 to {max_batch}.")
    measured = measurements.read(source, model)
    fitting = [size for size in geometry.holding(gpu, round(memory_gb * 1e9)) if size in measured]
    kinds = curves.kinds({size: measured[size] for size in fitting}, max_batch)
    kept = [kind.gpcs for kind in kinds]
    for size in sorted(measured):
        if size not in kept:
            click.echo(f"{size} GPCs are left out: {_why(size, gpu, fitting, max_batch)}.", err=True)
    if not kinds:
        raise SlicewiseError("bad_request", f"--max-batch: {source} has no size measured from 1 to {max_batch}.")
    if picture is not None:
        from slicewise.planning.plotting import plot

        knees = dict(zip(kept, paris.knees(kinds, max_batch, paris.UTILISATION_KNEE), strict=True))
        plot(kinds, knees, paris.UTILISATION_KNEE, f"{model or source.stem} on {gpu}", picture)
    click.echo(text(gpu, gpus, {"median": median, "sigma": sigma, "max": max_batch}, kinds), nl=False)


def _why(size: int, gpu: str, fitting: list[int], max_batch: int) -> str:
    if size not in geometry.plain(gpu):
        return f"a {gpu} has no such instance"
    return f"not measured from batch 1 to {max_batch}" if size in fitting else "too small for --memory-gb"


def text(gpu: str, gpus: int, shape: dict[str, float], kinds: tuple[Kind, ...]) -> str:
    """The file as YAML; curves on one line each."""
    from ruamel.yaml import YAML

    document: dict[str, Any] = {"version": 1, "gpu": gpu, "gpus": gpus, "batches": {"lognormal": shape}}
    document["kinds"] = {
        kind.gpcs: {
            "utilisation": {batch: _short(used) for batch, used in enumerate(kind.utilisation, 1)},
            "throughput_rps": {batch: _short(rate) for batch, rate in enumerate(kind.throughput_rps, 1)},
        }
        for kind in kinds
    }
    yaml: Any = YAML(typ="safe", pure=True)
    yaml.default_flow_style, yaml.width, yaml.sort_base_mapping_type_on_output = None, 1 << 20, False
    out = io.StringIO()
    yaml.dump(document, out)
    return out.getvalue()


def _short(value: float) -> float:
    """Six digits: more than any measurement has."""
    return float(f"{value:.6g}")
