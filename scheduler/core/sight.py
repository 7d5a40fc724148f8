"""Which slices a decision chose among, as far as that is cheap: a few, those that matter most first."""

from __future__ import annotations

from scheduler.core.history import Seen
from scheduler.core.requests import Request
from scheduler.core.slices import Slice, status_of
from scheduler.core.state import State

_SHOWN = 6  # each costs every decision a microsecond or two; the chosen one, holders and a few others tell enough


def sight(state: State, r: Request, chosen: Slice, holders: list[Slice]) -> tuple[Seen, ...]:
    """The chosen slice, then those that hold the worker, then others by index; only such as serve its function.

    By the papers' rules a slice that holds nothing of it and is busy was no candidate: when it is free is not asked.
    """
    needed = state.estimates.held_bytes(r.worker) - state.tuning.equal_bytes
    seen = [_seen(state, r, chosen, needed, True)]
    for g in holders:
        if len(seen) == _SHOWN:
            return tuple(seen)
        if g is not chosen and state.serves(g, r.worker):
            seen.append(_seen(state, r, g, needed, True))
    for g in state.slices:
        if len(seen) == _SHOWN:
            break
        if g is not chosen and r.worker not in g.held and state.serves(g, r.worker):
            seen.append(_seen(state, r, g, needed, state.tuning.gaps))
    return tuple(seen)


def _seen(state: State, r: Request, g: Slice, needed: int, closely: bool) -> Seen:
    free_in_ns = 0
    if g.running is not None or g.waiting:
        free_in_ns = max(0, state.remaining(g, r.worker)) if closely else -1
    spec = g.spec
    fits, free_bytes = needed <= spec.memory_bytes, spec.memory_bytes - g.used_bytes
    return Seen(spec.id, status_of(g), r.worker in g.held, fits, len(g.waiting), free_in_ns, free_bytes)
