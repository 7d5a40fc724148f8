"""Where the instances of a plan stand: an exact packer of sizes onto equal GPUs.

It says yes if and only if there is a way, and then uses as few GPUs as there can be, so that the others stay
whole. The rule: the largest size first, and each instance at the highest start that is free on any GPU.
That is exact because the memory slices of a GPU form nested halves, and the upper half is the poorer one, its
last slice having no compute. A 3g fits either half and so takes the poor one, which leaves room for more of what
is smaller; a 2g takes the pair next to that lost slice before pairs of a lower half, all pairs being worth
the same to a 1g; and what is left after that is room for as many 1g, wherever it lies.

GPUs that look alike are counted, not listed, so the work does not grow with their number.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from gpu_manager.core.geometry import occupied, plain
from proto.types.partitioning import MigInstance

Layout = tuple[MigInstance, ...]


@dataclass(slots=True)
class _Alike:
    """`gpus` neighbours with the same instances; `taken` are their memory slices as bits."""

    gpus: int
    taken: int
    layout: Layout


def packable(gpu: str, counts: Mapping[int, int], gpus: int) -> bool:
    """Whether `gpus` GPUs of this type can hold `counts` (GPCs -> instances of the plain profile)."""
    return _packed(gpu, counts, gpus) is not None


def pack(gpu: str, counts: Mapping[int, int], gpus: int) -> tuple[Layout, ...] | None:
    """One layout a GPU, its instances by start, on the fewest GPUs and the rest empty; None if there is no way.

    The same counts give the same layouts. Raises KeyError for a size that the GPU does not have.
    """
    if not packable(gpu, counts, gpus):
        return None
    few, many = 0, gpus  # more GPUs never hold less, so halving finds the fewest
    while few < many:
        middle = (few + many) // 2
        few, many = (few, middle) if packable(gpu, counts, middle) else (middle + 1, many)
    groups = _packed(gpu, counts, few) or []
    return tuple(_by_start(groups)) + ((),) * (gpus - few)


def _by_start(groups: list[_Alike]) -> Iterator[Layout]:
    for group in groups:
        layout = tuple(sorted(group.layout, key=lambda instance: instance.start))
        for _ in range(group.gpus):
            yield layout


def _packed(gpu: str, counts: Mapping[int, int], gpus: int) -> list[_Alike] | None:
    groups = [_Alike(gpus, 0, ())]
    known = plain(gpu)
    for gpcs in sorted(counts, reverse=True):
        profile, left = known[gpcs], counts[gpcs]
        for start in sorted(profile.starts, reverse=True):
            bits = occupied(profile, start)
            instance = MigInstance(profile.name, gpcs, start)
            after: list[_Alike] = []
            for group in groups:
                used = 0 if group.taken & bits else min(left, group.gpus)
                left -= used
                if used:
                    after.append(_Alike(used, group.taken | bits, (*group.layout, instance)))
                if group.gpus > used:
                    after.append(_Alike(group.gpus - used, group.taken, group.layout))
            groups = after
        if left:
            return None
    return groups
