"""Arrivals that come in bursts: a Poisson stream whose rate is switched between two values.

On and off times are exponential (an interrupted Poisson process; with a rate in the off times a
Markov-modulated one of two states). The mean rate stays what it would be without bursts.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from proto.wire import fields

_LEAST_S = 0.001  # of a mean on or off time; what is shorter is no burst


@dataclass(frozen=True, slots=True)
class Bursts:
    """Mean seconds on and off; `quiet` is the off rate as a share of the on rate."""

    on_s: float
    off_s: float
    quiet: float

    @property
    def on_factor(self) -> float:
        """The rate in on times by the mean rate."""
        return (self.on_s + self.off_s) / (self.on_s + self.quiet * self.off_s)


def bursts(value: Any, field: str) -> Bursts:
    """`{on_s, off_s, quiet}`; raises SlicewiseError `bad_request`."""
    given = fields.table(value, field, ("on_s", "off_s"), ("quiet",))
    return Bursts(
        fields.number(given["on_s"], f"{field}.on_s", least=_LEAST_S),
        fields.number(given["off_s"], f"{field}.off_s", least=_LEAST_S),
        fields.number(given.get("quiet", 0), f"{field}.quiet", least=0, most=1),
    )


class Switching:
    """The on and off times of one stream, as they are drawn; `draw` gives uniform numbers of [0, 1)."""

    def __init__(self, shape: Bursts, draw: Callable[[], float]) -> None:
        self._shape = shape
        self._draw = draw
        self._on = draw() < shape.on_s / (shape.on_s + shape.off_s)
        self._end_s = self._length()

    def after(self, at_s: float, wait_s: float) -> float:
        """When the next arrival comes that without bursts would come at `at_s + wait_s`."""
        while True:
            factor = self._shape.on_factor * (1.0 if self._on else self._shape.quiet)
            room_s = (self._end_s - at_s) * factor
            if factor and wait_s <= room_s:
                return at_s + wait_s / factor
            wait_s -= room_s
            at_s = self._end_s
            self._on = not self._on
            self._end_s += self._length()

    def _length(self) -> float:
        return -math.log1p(-self._draw()) * (self._shape.on_s if self._on else self._shape.off_s)
