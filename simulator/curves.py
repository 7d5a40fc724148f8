"""Inference time by slice size and batch size: a line, or a table that is linear between its batches."""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left
from dataclasses import dataclass
from typing import Any

from proto.wire import fields
from proto.wire.fields import bad


class Curve(ABC):
    """(gpcs, batch) -> nanoseconds, computed in doubles from the values as given and rounded once."""

    field: str

    @abstractmethod
    def ns(self, gpcs: int, batch: int) -> int:
        """Raises SlicewiseError `bad_request` where the curve has no value."""

    def check_size(self, gpcs: int) -> None:  # noqa: B027  a curve for any size has nothing to check
        """Raises SlicewiseError `bad_request` if there is nothing for slices of this size."""


@dataclass(frozen=True)
class Line(Curve):
    """fixed + per_item * batch, on any slice (LALB paper: a linear regression in the batch size)."""

    field: str
    fixed: float
    per_item: float

    def ns(self, gpcs: int, batch: int) -> int:
        """See Curve."""
        try:
            seconds = self.fixed + self.per_item * batch
        except OverflowError as error:
            raise bad(self.field, f"has no time for a batch of {batch:.6g}; make it smaller") from error
        return fields.nanoseconds(seconds, f"{self.field} at batch {batch:.6g}")


@dataclass(frozen=True)
class Table(Curve):
    """gpcs -> batches and their seconds, in order of the batches (ELSA paper: T_est by profiling)."""

    field: str
    rows: dict[int, tuple[tuple[int, ...], tuple[float, ...]]]

    def check_size(self, gpcs: int) -> None:
        """See Curve."""
        if gpcs not in self.rows:
            raise bad(
                f"{self.field}.{gpcs}", f"is missing: there is a slice of {gpcs} GPCs that the model fits; add it"
            )

    def ns(self, gpcs: int, batch: int) -> int:
        """See Curve."""
        self.check_size(gpcs)
        batches, seconds = self.rows[gpcs]
        if not batches[0] <= batch <= batches[-1]:
            reach = f"{batches[0]} to {batches[-1]}"
            raise bad(f"{self.field}.{gpcs}", f"covers batches {reach}, but one of {batch} is requested; add its time")
        place = bisect_left(batches, batch)
        if batches[place] == batch:
            return fields.nanoseconds(seconds[place], self.field)
        (b0, b1), (s0, s1) = batches[place - 1 : place + 1], seconds[place - 1 : place + 1]
        return fields.nanoseconds(s0 + (s1 - s0) * (batch - b0) / (b1 - b0), self.field)


def curve(value: Any, field: str) -> Curve:
    """`{fixed, per_item}` or `{table}`; raises SlicewiseError `bad_request`."""
    if isinstance(value, dict) and "table" in value:
        given = fields.table(value, field, ("table",))
        return _table(given["table"], f"{field}.table")
    given = fields.table(value, field, ("fixed", "per_item"))
    fixed = fields.number(given["fixed"], f"{field}.fixed", least=0)
    return Line(field, fixed, fields.number(given["per_item"], f"{field}.per_item", least=0))


def _table(value: Any, field: str) -> Table:
    rows = {}
    for gpcs, row in fields.whole_keys(value, field, "GPCs to a row").items():
        entries = fields.whole_keys(row, f"{field}.{gpcs}", "batch sizes to seconds")
        times = {b: fields.number(s, f"{field}.{gpcs}.{b}", least=0) for b, s in entries.items()}
        for batch, s in times.items():
            fields.nanoseconds(s, f"{field}.{gpcs}.{batch}")
        batches = tuple(sorted(times))
        rows[gpcs] = (batches, tuple(times[b] for b in batches))
    return Table(field, rows)
