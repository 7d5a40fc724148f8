"""Which workers go when a slice needs room: those least in demand, least recently used first, no more than needed.

The rule is the first paper's (its Cache Manager): walk the slice's LRU list and stop as soon as the
new worker fits. Two things are added, which the scheduler knows and sends along. Workers that queued calls wait
for are spared while others can go, since evicting one of them only turns a certain hit into a certain load. And
among workers that are called often, how often says more than which was called last: the rarer goes first.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from proto.types.errors import SlicewiseError
from proto.types.placing import Demand, Victims
from proto.types.slices import CachedWorker

MIB = 1024 * 1024
NO_DEMAND = Demand()


def victims(
    slice_id: str,
    lru: Sequence[CachedWorker],
    free_bytes: int,
    worker: str,
    needed_bytes: int,
    never: Collection[str] = (),
    keep: Mapping[str, Demand] | None = None,
) -> Victims:
    """The workers that must go so that `worker` (a key) with `needed_bytes` fits, in the order to go.

    `lru` is least recently used first; `never` may not go now; `keep` says which
    workers are in demand. Raises SlicewiseError `model_too_large` when the slice is too small even if empty,
    `no_slice` when it would do but for workers that may not go now.
    """
    if needed_bytes <= free_bytes:
        return Victims(slice_id, (), f"{_mib(free_bytes)} are free, {_mib(needed_bytes)} are needed")
    demand = keep or {}
    others = [item for item in lru if item.key != worker]
    free_to_go = [item for item in others if item.key not in never]
    least_wanted_first = sorted(free_to_go, key=lambda item: demand.get(item.key, NO_DEMAND).rank)
    chosen: list[CachedWorker] = []
    room = free_bytes
    for item in least_wanted_first:
        if room >= needed_bytes:
            break
        chosen.append(item)
        room += item.held_bytes
    if room < needed_bytes:
        raise _no_room(slice_id, others, free_bytes, worker, needed_bytes, room)
    return Victims(
        slice_id,
        tuple(item.key for item in chosen),
        f"{_mib(needed_bytes)} are needed, {_mib(free_bytes)} are free; "
        f"of {len(others)} those go that nobody waits for, the rarest called and least recently used first",
    )


def _no_room(
    slice_id: str, others: Sequence[CachedWorker], free_bytes: int, worker: str, needed_bytes: int, room: int
) -> SlicewiseError:
    whole = free_bytes + sum(item.held_bytes for item in others)
    if whole < needed_bytes:
        return SlicewiseError(
            "model_too_large",
            f"{worker} needs {_mib(needed_bytes)}, but slice {slice_id} has {_mib(whole)} for it even when empty.",
        )
    return SlicewiseError(
        "no_slice",
        f"{worker} needs {_mib(needed_bytes)} on slice {slice_id}: {_mib(free_bytes)} are free, "
        f"{_mib(room - free_bytes)} can be freed, and {_mib(whole - room)} belong to workers that may not go now.",
    )


def _mib(size: int) -> str:
    return f"{size / MIB:.1f} MiB"
