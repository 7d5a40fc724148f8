"""The scheduler's state as people and tools read it: one JSON document, seconds and bytes."""

from __future__ import annotations

from typing import Any

from scheduler.core.core import SchedulerCore
from scheduler.core.history import Placement
from scheduler.core.slices import Bound, Slice, status_of

_SHOWN_PLACEMENTS = 100


def state_document(core: SchedulerCore) -> dict[str, Any]:
    """Slices with what they hold (least recently used first) and have bound, the queue, recent placements."""
    now = core.state.now_ns
    return {
        "policy": core.policy.parameters(),
        "slices": [_slice(g, now) for g in core.state.slices],
        "global_queue": core.waiting,
        "queued": {worker: len(line) for worker, line in core.state.queue.workers.items()},
        "parked": len(core.room.parked),
        "bindings": [_bound(b, now) for b in core.ledger.bound.values()],
        "recent": [placement_document(p, now) for p in list(core.records.recent)[-_SHOWN_PLACEMENTS:]],
    }


def _slice(g: Slice, now: int) -> dict[str, Any]:
    return {
        "id": g.id,
        "node": g.spec.node,
        "kind": g.spec.kind,
        "gpcs": g.spec.gpcs,
        "memory_bytes": g.spec.memory_bytes,
        "free_bytes": g.free_bytes,
        "pool": g.pool,
        "moving_to": g.moving_to,
        "status": status_of(g),
        "workers": [{"worker": worker, "held_bytes": held_bytes} for worker, held_bytes in g.held.items()],
        "local_queue": len(g.waiting),
        "running": g.running.id if g.running is not None else "",
        "remaining_s": g.remaining(now) / 1e9,
    }


def _bound(b: Bound, now: int) -> dict[str, Any]:
    return {
        "id": b.id,
        "call_id": b.request.call_id,
        "owner": b.request.owner,
        "worker": b.request.worker,
        "slice": b.slice.id,
        "stage": b.stage.value,
        "hit": b.hit,
        "age_s": (now - b.bound_ns) / 1e9,
    }


def placement_document(p: Placement, now: int) -> dict[str, Any]:
    """One placement with its reason."""
    return {
        "call_id": p.call_id,
        "binding": p.binding_id,
        "worker": p.worker,
        "slice": p.slice,
        "hit": p.hit,
        "false_miss": p.false_miss,
        "local": p.local,
        "queued_s": p.queued_ns / 1e9,
        "skips": p.skips,
        "age_s": (now - p.at_ns) / 1e9,
        "reason": p.reason,
    }
