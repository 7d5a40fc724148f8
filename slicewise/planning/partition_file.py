"""A partition plan's file: what is to be divided, and what was measured; every mistake named with its way out.

Reading ends with plain values; what they lead to is `gpu_manager.core.paris`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpu_manager.core import geometry
from gpu_manager.core.mig_profiles import COMPUTE_SLICES
from gpu_manager.core.paris import UTILISATION_KNEE
from proto.types.partitioning import Kind
from proto.wire import fields
from proto.wire.documents import read_document
from slicewise.planning.batch_sizes import log_normal

VERSION = 1
MOST_GPUS = 100_000  # the layout lists every one; a mistyped number must not fill the memory
SUM_TOLERANCE = 1e-6
ROUNDING = 1e-12  # what doubles add to a sum that is just within the tolerance


@dataclass(frozen=True, slots=True)
class Asked:
    """The arguments of `paris.partition`."""

    gpu: str
    gpus: int
    gpcs: int
    kinds: tuple[Kind, ...]
    dist: tuple[float, ...]
    utilisation_knee: float


def read(path: Path) -> Asked:
    """The file's contents; raises SlicewiseError `bad_request` that names the field and the fix."""
    return understood(read_document(path))


def understood(document: Any) -> Asked:
    """As `read`, for a document that has been parsed."""
    given = fields.table(document, "", ["gpu", "gpus", "batches", "kinds"], ["version", "gpcs", "utilisation_knee"])
    if fields.whole(given.get("version", VERSION), "version", least=1) != VERSION:
        raise fields.bad("version", f"must be {VERSION}")
    gpu = fields.text(given["gpu"], "gpu")
    if gpu not in geometry.gpu_types():
        raise fields.bad("gpu", f"{gpu} is not known; there are {', '.join(geometry.gpu_types())}")
    gpus = _at_most(MOST_GPUS, fields.whole(given["gpus"], "gpus", least=1), "gpus")
    whole_budget = COMPUTE_SLICES * gpus
    gpcs = fields.whole(given.get("gpcs", whole_budget), "gpcs", least=1)
    if gpcs > whole_budget:
        raise fields.bad(
            "gpcs", f"must be at most {whole_budget}, {COMPUTE_SLICES} for each of {gpus} GPUs, not {gpcs}"
        )
    knee = fields.number(given.get("utilisation_knee", UTILISATION_KNEE), "utilisation_knee", least=0, most=1)
    batches = _batches(given["batches"])
    largest = batches.largest
    kinds = fields.whole_keys(given["kinds"], "kinds", "GPCs to measured curves")
    return Asked(
        gpu=gpu,
        gpus=gpus,
        gpcs=gpcs,
        kinds=tuple(_kind(gpu, size, kinds[size], largest) for size in sorted(kinds)),
        dist=batches.dist(),
        utilisation_knee=float(knee),
    )


@dataclass(frozen=True, slots=True)
class _Pdf:
    """Probabilities as the file lists them."""

    listed: Mapping[int, float]

    @property
    def largest(self) -> int:
        return max(self.listed)

    def dist(self) -> tuple[float, ...]:
        return tuple(self.listed.get(batch, 0.0) for batch in range(1, self.largest + 1))


@dataclass(frozen=True, slots=True)
class _LogNormal:
    median: float
    sigma: float
    largest: int

    def dist(self) -> tuple[float, ...]:
        found = log_normal(self.median, self.sigma, self.largest)
        if found is None:
            raise fields.bad(
                "batches.lognormal", f"has no mass from 1 to {self.largest}; choose another median, sigma or max"
            )
        return found


def _batches(value: Any) -> _Pdf | _LogNormal:
    if isinstance(value, dict) and "lognormal" in value:
        fields.table(value, "batches", ["lognormal"])
        field = "batches.lognormal"
        given = fields.table(value["lognormal"], field, ["median", "sigma", "max"])
        return _LogNormal(
            float(fields.number(given["median"], f"{field}.median", above=0)),
            float(fields.number(given["sigma"], f"{field}.sigma", above=0)),
            fields.whole(given["max"], f"{field}.max", least=1),
        )
    listed = {
        batch: float(fields.number(probability, f"batches.{batch}", least=0))
        for batch, probability in fields.whole_keys(value, "batches", "batch sizes to probabilities").items()
    }
    total = math.fsum(listed.values())
    if abs(total - 1) > SUM_TOLERANCE + ROUNDING:
        raise fields.bad("batches", f"must sum to 1 within {SUM_TOLERANCE:g}, not to {total:.9g}")
    return _Pdf(listed)


def _kind(gpu: str, size: int, value: Any, largest: int) -> Kind:
    field = f"kinds.{size}"
    if size not in geometry.plain(gpu):
        sizes = ", ".join(map(str, geometry.plain(gpu)))
        raise fields.bad(field, f"a {gpu} has no instance of {size} GPCs; there are {sizes}")
    given = fields.table(value, field, ["utilisation", "throughput_rps"])
    utilisation = _curve(given["utilisation"], f"{field}.utilisation", largest)
    throughput = _curve(given["throughput_rps"], f"{field}.throughput_rps", largest)
    for batch, part in utilisation.items():
        fields.number(part, f"{field}.utilisation.{batch}", least=0, most=1)
    for batch, rate in throughput.items():
        fields.number(rate, f"{field}.throughput_rps.{batch}", above=0)
    wanted = range(1, largest + 1)
    return Kind(
        size,
        tuple(float(utilisation[batch]) for batch in wanted),
        tuple(float(throughput[batch]) for batch in wanted),
    )


def _curve(value: Any, field: str, largest: int) -> dict[int, Any]:
    curve = fields.whole_keys(value, field, "batch sizes to what was measured")
    missing = next((batch for batch in range(1, largest + 1) if batch not in curve), None)
    if missing is not None:
        raise fields.bad(f"{field}.{missing}", f"is missing; give each batch from 1 to {largest}")
    return curve


def _at_most(most: int, value: int, field: str) -> int:
    if value > most:
        raise fields.bad(field, f"must be at most {most}, not {value}")
    return value
