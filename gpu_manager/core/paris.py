"""PARIS: how many slices of each size a model's queries want (arXiv 2202.13481, Algorithm 1).

A batch belongs to the smallest slice that it fills: the knee of a size is where its utilisation passes a threshold,
and the batches between two knees are the larger one's. How often such batches come, over how fast that size serves
them, says in what proportion the sizes are needed. Profiles of real models need guards that the paper does not spell
out. A curve that never passes the threshold has its knee at the largest batch; so has the largest size, which must take
every batch that is left. Knees never fall: a size whose own knee lies below a smaller one's gets no batches, hence no
instances. How the proportion becomes whole instances on real GPUs is `counting`'s part; sizes that cannot hold
the model are left out before (`geometry.holding`).
"""

from __future__ import annotations

from collections.abc import Sequence

from gpu_manager.core.counting import Demand, counts
from gpu_manager.core.packing import pack, packable
from proto.types.partitioning import Kind, PartitionPlan

UTILISATION_KNEE = 0.8  # the paper's


def partition(
    gpu: str, gpus: int, gpcs: int, kinds: Sequence[Kind], dist: Sequence[float], utilisation_knee: float
) -> PartitionPlan:
    """The plan for one model on `gpus` GPUs of a type, of whose GPCs it may use `gpcs`.

    `dist` is the PDF of batch sizes, `dist[b - 1]` that of b; every curve of `kinds` has at least as many entries.
    `kinds` are sizes of the GPU that can hold the model, in increasing order, at least one. Raises SlicewiseError
    `bad_request` when throughputs are too small or too large for the ratios to be numbers.
    """
    b = knees(kinds, len(dist), utilisation_knee)
    r = ratios(kinds, dist, b)
    demands = [Demand(kind.gpcs, ratio, share) for kind, ratio, share in zip(kinds, r, shares(dist, b), strict=True)]
    instances = counts(demands, gpcs, lambda wanted: packable(gpu, wanted, gpus))
    layout = pack(gpu, instances, gpus)
    assert layout is not None  # counting ends with what is packable
    return PartitionPlan(
        knees={kind.gpcs: knee for kind, knee in zip(kinds, b, strict=True)},
        ratios={kind.gpcs: ratio for kind, ratio in zip(kinds, r, strict=True)},
        instances=instances,
        leftover_gpcs=gpcs - sum(size * count for size, count in instances.items()),
        layout=layout,
    )


def knees(kinds: Sequence[Kind], b_max: int, threshold: float) -> list[int]:
    """Step A (lines 6-9): B_k, the smallest batch at which the utilisation of size k exceeds the threshold."""
    found = []
    highest = 0
    for kind in kinds:
        passing = (b for b in range(1, b_max + 1) if kind.utilisation[b - 1] > threshold)
        highest = max(highest, next(passing, b_max))
        found.append(highest)
    found[-1] = b_max
    return found


def segments(b: Sequence[int]) -> list[range]:
    """The batches of each size: B_{k-1} < b <= B_k with B_0 = 0."""
    return [range(below + 1, knee + 1) for below, knee in zip([0, *b[:-1]], b, strict=True)]


def ratios(kinds: Sequence[Kind], dist: Sequence[float], b: Sequence[int]) -> list[float]:
    """Step B (lines 10-16): R_k, the seconds that slices of size k work per query that arrives (N = 1)."""
    return [
        sum((dist[batch - 1] / kind.throughput_rps[batch - 1] for batch in segment), 0.0)
        for kind, segment in zip(kinds, segments(b), strict=True)
    ]


def shares(dist: Sequence[float], b: Sequence[int]) -> list[float]:
    """What part of the queries falls into each segment."""
    return [sum((dist[batch - 1] for batch in segment), 0.0) for segment in segments(b)]
