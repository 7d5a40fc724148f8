"""`slicewise partition`: into which slices a model's GPUs are best divided."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import click

from proto.types.partitioning import PartitionPlan
from slicewise.commands.options import json_option
from slicewise.commands.output import table


@click.group("partition")
def partition_command() -> None:
    """Divide GPUs into MIG slices by what a model needs."""


@partition_command.command("plan")
@click.argument("file", type=click.Path(path_type=Path))
@json_option
@click.option(
    "--format",
    "form",
    type=click.Choice(["mig-parted"]),
    help="Print the configuration file of NVIDIA's mig-parted and MIG manager instead.",
)
def plan(file: Path, as_json: bool, form: str | None) -> None:
    """Plan the slices for the model that FILE (YAML or JSON) describes, with PARIS.

    FILE gives the GPUs (gpu, gpus, gpcs), how often each batch size comes (batches), and for each slice
    size the measured utilisation and throughput by batch size (kinds).
    """
    from gpu_manager.core import paris
    from slicewise.planning import mig_parted, partition_file

    if as_json and form:
        raise click.UsageError("--json and --format exclude each other; give one.")
    asked = partition_file.read(file)
    found = paris.partition(asked.gpu, asked.gpus, asked.gpcs, asked.kinds, asked.dist, asked.utilisation_knee)
    if form:
        click.echo(mig_parted.text(found.layout), nl=False)
    elif as_json:
        click.echo(json.dumps(document(found)))
    else:
        _show(found)


def document(plan: PartitionPlan) -> dict[str, Any]:
    """The plan as `--json` prints it."""
    return {
        "knees": {str(gpcs): knee for gpcs, knee in plan.knees.items()},
        "ratios": {str(gpcs): ratio for gpcs, ratio in plan.ratios.items()},
        "instances": {str(gpcs): count for gpcs, count in plan.instances.items()},
        "leftover_gpcs": plan.leftover_gpcs,
        "layout": [
            [{"profile": one.profile, "gpcs": one.gpcs, "start": one.start} for one in instances]
            for instances in plan.layout
        ],
    }


def _show(plan: PartitionPlan) -> None:
    names = {one.gpcs: one.profile for instances in plan.layout for one in instances}
    low = 0
    rows: list[tuple[object, ...]] = []
    for gpcs, knee in plan.knees.items():
        batches = "-" if knee == low else f"{low + 1}" if knee == low + 1 else f"{low + 1}-{knee}"
        rows.append((gpcs, names.get(gpcs, "-"), batches, f"{plan.ratios[gpcs]:.6g}", plan.instances[gpcs]))
        low = knee
    table(("GPCS", "PROFILE", "BATCHES", "RATIO", "INSTANCES"), rows)
    click.echo()
    table(("GPU", "INSTANCES"), [(index, _instances(layout)) for index, layout in enumerate(plan.layout)])
    click.echo(f"\n{plan.leftover_gpcs} GPCs of the budget are left over.")


def _instances(layout: tuple[Any, ...]) -> str:
    counts = Counter(one.profile for one in layout)
    return ", ".join(f"{count} x {name}" for name, count in counts.items()) or "none, MIG off"
