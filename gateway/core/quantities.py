"""Kubernetes quantities (`100m`, `512Mi`, `1e3`): checked here, echoed as they were sent."""

from __future__ import annotations

import re
from decimal import Decimal

_QUANTITY = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)(?:([numkMGTPE]|[KMGTPE]i)|[eE]([-+]?[0-9]{1,2}))?")
_SUFFIX = {
    "n": Decimal(10) ** -9,
    "u": Decimal(10) ** -6,
    "m": Decimal(10) ** -3,
    "k": Decimal(10) ** 3,
    **{letter: Decimal(10) ** (3 * power) for power, letter in enumerate("MGTPE", start=2)},
    **{f"{letter}i": Decimal(2) ** (10 * power) for power, letter in enumerate("KMGTPE", start=1)},
}


def parse(text: str) -> Decimal:
    """The number that a quantity means; raises ValueError when it is none or negative."""
    match = _QUANTITY.fullmatch(text)
    if match is None:
        raise ValueError(f"{text[:40]!r} is no quantity: write it like 500m, 2, 128Mi or 1Gi")
    number = Decimal(match[1])
    if match[2]:
        return number * _SUFFIX[match[2]]
    if match[3]:
        return number.scaleb(int(match[3]))
    return number
