"""How many replicas a function has: the scale labels, and what an explicit wish becomes.

The labels bound automatic decisions (the first replicas, waking); a person who asks for a number
gets that number, zero included, up to the platform's own limit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gateway.core.bodies import refuse
from proto.types.errors import SlicewiseError

MIN_LABEL = "com.openfaas.scale.min"
MAX_LABEL = "com.openfaas.scale.max"
DEFAULT_MIN = 1
DEFAULT_MAX = 20
PLATFORM_MAX = 1000  # replicas of one function: more is a mistyped number


@dataclass(frozen=True)
class ScaleBounds:
    """Replicas between `least` (never 0) and `most`."""

    least: int = DEFAULT_MIN
    most: int = DEFAULT_MAX


def bounds(labels: Mapping[str, str]) -> ScaleBounds:
    """The bounds in a function's labels; raises SlicewiseError `bad_function`."""
    least = _count(labels, MIN_LABEL, DEFAULT_MIN)
    most = _count(labels, MAX_LABEL, max(DEFAULT_MAX, least))
    if least > most:
        raise refuse(f"labels.{MIN_LABEL}", f"{least} is more than {MAX_LABEL}, which is {most}")
    return ScaleBounds(least, most)


def after_deploy(labels: Mapping[str, str], before: int | None) -> int:
    """Replicas after a deploy: an update keeps what was there unless the label asks for a minimum."""
    wanted = bounds(labels)
    if before is None or (MIN_LABEL in labels and before < wanted.least):
        return wanted.least
    return before


def after_wake(labels: Mapping[str, str]) -> int:
    """Replicas of a function that was at zero and is called."""
    return bounds(labels).least


def asked_for(replicas: int) -> int:
    """What a scale request gives; raises SlicewiseError `bad_request` beyond the platform's limit."""
    if replicas > PLATFORM_MAX:
        raise SlicewiseError("bad_request", f"replicas: {replicas} is over the limit of {PLATFORM_MAX}.")
    return replicas


def _count(labels: Mapping[str, str], name: str, default: int) -> int:
    given = labels.get(name, "").strip()
    if not given:
        return default
    if not given.isascii() or not given.isdigit() or not 1 <= int(given) <= PLATFORM_MAX:
        raise refuse(f"labels.{name}", f"{given[:40]!r} is no whole number from 1 to {PLATFORM_MAX}")
    return int(given)
