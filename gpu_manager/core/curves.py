"""From single measurements of a model to the curves that PARIS reads: a value for each batch size.

A profile is measured at a few batch sizes only, mostly powers of two. Between two of them the time of a call is taken
as linear, as everywhere in Slicewise, and so is the utilisation. Where nobody measured utilisation, throughput in items
per second over the most that this slice size reached stands in for it. A slice size that was not measured up to the
largest batch could not hold it, and gets no curve.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from proto.types.partitioning import Kind


@dataclass(frozen=True, slots=True)
class Point:
    """One measurement: seconds of a call with `batch` items; utilisation in [0, 1], None if it was not measured."""

    batch: int
    latency_s: float
    utilisation: float | None = None


def kinds(measured: Mapping[int, Sequence[Point]], largest: int) -> tuple[Kind, ...]:
    """A kind for each size, GPCs -> points, that was measured from batch 1 to `largest` or beyond; by size."""
    found = (_kind(gpcs, measured[gpcs], largest) for gpcs in sorted(measured))
    return tuple(kind for kind in found if kind is not None)


def latencies(kind: Kind) -> tuple[float, ...]:
    """Seconds of a call, by batch from 1."""
    return tuple(1 / rate for rate in kind.throughput_rps)


def _kind(gpcs: int, points: Sequence[Point], largest: int) -> Kind | None:
    ordered = sorted(points, key=lambda point: point.batch)
    if not ordered or ordered[0].batch > 1 or ordered[-1].batch < largest:
        return None
    seconds = _filled([(point.batch, point.latency_s) for point in ordered], largest)
    shares = [(point.batch, point.utilisation) for point in ordered if point.utilisation is not None]
    if len(shares) < len(ordered):
        peak = max(point.batch / point.latency_s for point in ordered)
        used = [min(batch / s / peak, 1.0) for batch, s in enumerate(seconds, 1)]
    else:
        used = _filled(shares, largest)
    return Kind(gpcs, tuple(used), tuple(1 / s for s in seconds))


def _filled(points: Sequence[tuple[int, float]], largest: int) -> list[float]:
    """Values for 1..largest from points by increasing batch that enclose them, linear in between."""
    values = [points[0][1]]
    after = 0
    for batch in range(2, largest + 1):
        while points[after][0] < batch:
            after += 1
        (b0, v0), (b1, v1) = points[after - 1], points[after]
        values.append(v0 + (v1 - v0) * (batch - b0) / (b1 - b0))
    return values
