"""What may stand beside what on one GPU: profiles by size, and which layouts a device would take.

A layout is a set of instances at their first memory slices. It is valid when each instance stands at a start that its
profile allows, no two share a memory slice, none is there more often than its profile permits, and the compute slices
add up to at most seven. (On today's GPUs the last follows from the others; it is checked all the same.) How many
instances of each size several GPUs can hold is the packer's part.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from gpu_manager.core.mig_profiles import COMPUTE_SLICES, PROFILES, MigProfile
from proto.types.partitioning import MigInstance

MIB = 1 << 20


def gpu_types() -> tuple[str, ...]:
    """The GPU types whose profiles are known."""
    return tuple(PROFILES)


def profiles(gpu: str) -> tuple[MigProfile, ...]:
    """All profiles of a GPU type, smallest first; KeyError for an unknown one."""
    return PROFILES[gpu]


def plain(gpu: str) -> Mapping[int, MigProfile]:
    """GPCs -> the profile that plans use for that size, smallest first."""
    return {profile.gpcs: profile for profile in PROFILES[gpu] if profile.plain}


def holding(gpu: str, memory_bytes: int) -> tuple[int, ...]:
    """The sizes, in GPCs, whose plain instances can hold a worker of that many bytes; none if no instance can."""
    return tuple(gpcs for gpcs, profile in plain(gpu).items() if profile.memory_mib * MIB >= memory_bytes)


def occupied(profile: MigProfile, start: int) -> int:
    """The memory slices of an instance as bits, slice 0 the lowest."""
    return ((1 << profile.memory_slices) - 1) << start


def fault(gpu: str, layout: Iterable[MigInstance]) -> str | None:
    """Why a GPU of this type would not take the layout, None if it would."""
    known = {profile.name: profile for profile in PROFILES[gpu]}
    counts: Counter[str] = Counter()
    taken = compute = 0
    for instance in layout:
        profile = known.get(instance.profile)
        if profile is None:
            return f"{gpu} has no profile {instance.profile}"
        if instance.gpcs != profile.gpcs:
            return f"{instance.profile} has {profile.gpcs} GPCs, not {instance.gpcs}"
        if instance.start not in profile.starts:
            return f"{instance.profile} may start at {', '.join(map(str, profile.starts))}, not at {instance.start}"
        if taken & occupied(profile, instance.start):
            return f"{instance.profile} at {instance.start} overlaps another instance"
        counts[profile.name] += 1
        if counts[profile.name] > profile.most:
            return f"{gpu} takes at most {profile.most} of {profile.name}"
        taken |= occupied(profile, instance.start)
        compute += profile.gpcs
    if compute > COMPUTE_SLICES:
        return f"{compute} compute slices are more than {COMPUTE_SLICES}"
    return None


def layouts(gpu: str, among: Sequence[MigProfile] | None = None) -> Iterator[tuple[MigInstance, ...]]:
    """Every valid layout of the profiles `among` (the plain ones), the empty one included, each once, by start."""
    chosen = tuple(plain(gpu).values()) if among is None else tuple(among)
    places = sorted((start, profile.name, profile) for profile in chosen for start in profile.starts)

    def extended(layout: tuple[MigInstance, ...], taken: int, first: int) -> Iterator[tuple[MigInstance, ...]]:
        yield layout
        for index in range(first, len(places)):
            start, name, profile = places[index]
            if taken & occupied(profile, start):
                continue
            longer = (*layout, MigInstance(name, profile.gpcs, start))
            if fault(gpu, longer) is None:
                yield from extended(longer, taken | occupied(profile, start), index + 1)

    return extended((), 0, 0)


def maximal_multisets(gpu: str) -> tuple[tuple[int, ...], ...]:
    """The sets of plain sizes, largest first, that fit one GPU and to which no further instance can be added.

    Placement counts, not the sum alone: two of 3 GPCs leave a compute slice that no instance can take.
    """
    fitting = {tuple(sorted((one.gpcs for one in layout), reverse=True)) for layout in layouts(gpu)}
    grown = {tuple(sorted((*sizes, more), reverse=True)) for sizes in fitting for more in plain(gpu)}
    within = {sizes for sizes in fitting if not any(_extends(longer, sizes) for longer in grown & fitting)}
    return tuple(sorted(within, reverse=True))


def _extends(longer: tuple[int, ...], sizes: tuple[int, ...]) -> bool:
    return len(longer) == len(sizes) + 1 and not Counter(sizes) - Counter(longer)
