"""A call that came in: what is kept of it for replaying traffic later."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Arrival:
    """`at_ns` since the epoch, or since a trace begins; `batch` 0 is not known; `sla_ns` 0 is none.

    `function` is NAME.NAMESPACE where the platform recorded it.
    """

    at_ns: int
    function: str
    batch: int
    sla_ns: int
