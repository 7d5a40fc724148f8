"""What a partition plan is made from and what it says: slice sizes, their measured curves, counts, places.

GPCs stand for a size everywhere: GPU(k) is a slice of k GPCs (arXiv 2202.13481, section IV).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Kind:
    """One slice size, as a model was measured on it; entry b - 1 of a curve is batch size b.

    `utilisation` is in [0, 1]; `throughput_rps` counts queries of that whole batch, not their items, per second.
    """

    gpcs: int
    utilisation: tuple[float, ...]
    throughput_rps: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class MigInstance:
    """An instance at its place: `start` is its first memory slice."""

    profile: str
    gpcs: int
    start: int


@dataclass(frozen=True, slots=True)
class PartitionPlan:
    """How a model's GPCs are divided; every mapping is by GPCs and has every kind.

    `knees` are batch sizes, `ratios` GPU seconds of each size per query that arrives, `layout` has one entry a GPU.
    """

    knees: Mapping[int, int]
    ratios: Mapping[int, float]
    instances: Mapping[int, int]
    leftover_gpcs: int
    layout: tuple[tuple[MigInstance, ...], ...]
