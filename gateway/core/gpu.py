"""Whether a function wants a GPU and how fast it must answer, from every place where a user may say so.

A stock faas-cli drops GPU limits before it sends them, so labels, annotations and the image count too.
The deployment wins over the image: an explicit "false" in it switches an image's flag off.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gateway.core import durations, quantities
from gateway.core.bodies import refuse
from gateway.core.deployment import GPU_RESOURCES, Deployment

FLAG = "com.slicewise.gpu"
SLA = "com.slicewise.sla"
INTERPOSE = "com.slicewise.interpose"
RESERVE = "com.slicewise.reserve"
WHY = "com.slicewise.why"  # told by describe; whoever sends back what was described has it, too
PREFIX = "com.slicewise."
OURS = frozenset({FLAG, SLA, INTERPOSE, RESERVE, WHY})
IMAGE_VARIABLE = "GPU_ENABLE"
_TRUE = frozenset({"true", "1", "yes", "on", "t", "y"})
_FALSE = frozenset({"false", "0", "no", "off", "f", "n", ""})


@dataclass(frozen=True)
class ImageFacts:
    """What is known of an image: its digest, and what its Dockerfile declared."""

    digest: str
    labels: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)


def check_names(deployment: Deployment) -> None:
    """Raise SlicewiseError `bad_function` for a label, annotation or limit that looks like a flag and is none."""
    for source, where in ((deployment.labels, "labels"), (deployment.annotations, "annotations")):
        for name in source:
            if name.lower().startswith(PREFIX) and name not in OURS:
                raise refuse(
                    f"{where}.{name}", f"is not known; Slicewise reads {FLAG}, {SLA}, {RESERVE} and {INTERPOSE}"
                )
    for name in deployment.limits:
        if name.lower().startswith("nvidia.com/") and name not in GPU_RESOURCES:
            raise refuse(f"limits.{name}", f"is not known; GPUs are {' or '.join(GPU_RESOURCES)}")


def wants_gpu(deployment: Deployment, image: ImageFacts) -> bool:
    """The GPU flag of contracts 4; raises SlicewiseError `bad_function` when a flag is neither true nor false."""
    for source, where in ((deployment.labels, "labels"), (deployment.annotations, "annotations")):
        if FLAG in source:
            return _truth(f"{where}.{FLAG}", source[FLAG])
    for name in GPU_RESOURCES:
        if name in deployment.limits:
            return quantities.parse(deployment.limits[name]) > 0
    if IMAGE_VARIABLE in deployment.env_vars:
        return _truth(f"envVars.{IMAGE_VARIABLE}", deployment.env_vars[IMAGE_VARIABLE])
    if FLAG in image.labels:
        return _truth(f"the image's label {FLAG}", image.labels[FLAG])
    if IMAGE_VARIABLE in image.environment:
        return _truth(f"the image's variable {IMAGE_VARIABLE}", image.environment[IMAGE_VARIABLE])
    return False


def interposes(deployment: Deployment, image: ImageFacts) -> bool:
    """Whether a GPU function's models go to slices: yes, unless it says no; raises SlicewiseError `bad_function`.

    One that says no runs as it would without Slicewise, and no slice serves it.
    """
    for source, where in (
        (deployment.labels, "labels."),
        (deployment.annotations, "annotations."),
        (image.labels, "the image's label "),
    ):
        if INTERPOSE in source:
            return _truth(f"{where}{INTERPOSE}", source[INTERPOSE])
    return True


def sla_ns(deployment: Deployment) -> int:
    """The SLA annotation in nanoseconds, 0 without one; raises SlicewiseError `bad_function`."""
    given = deployment.annotations.get(SLA) or deployment.labels.get(SLA)
    if not given:
        return 0
    try:
        nanoseconds = durations.parse_ns(given)
    except ValueError as error:
        raise refuse(f"annotations.{SLA}", str(error)) from error
    if nanoseconds == 0:
        raise refuse(f"annotations.{SLA}", "must be longer than nothing")
    return nanoseconds


def _truth(field_name: str, text: str) -> bool:
    lowered = text.strip().lower()
    if lowered in _TRUE:
        return True
    if lowered in _FALSE:
        return False
    raise refuse(field_name, f'{text[:40]!r} is neither "true" nor "false"')
