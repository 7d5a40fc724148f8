"""Why a call is where it is: one JSON document, seconds and bytes."""

from __future__ import annotations

from typing import Any

from scheduler.core.core import SchedulerCore
from scheduler.core.history import Course, Placement, Seen, base

_NS = 1e9


def explanation(core: SchedulerCore, call_id: str) -> dict[str, Any] | None:
    """Placements of a call (oldest first), its place in line, its refusal; None for a call of which nothing is kept.

    `kept` placements are held of at most `limit`. Times of phases are seconds since the call came, as far as the
    scheduler knows: from the arrival that its Place told.
    """
    history, now = core.records.recent, core.state.now_ns
    placements = [_placement(placement, course, now) for placement, course in history.of_call(call_id)]
    waiting = _waiting(core, call_id)
    refusal = history.refusal(call_id)
    if not placements and waiting is None and refusal is None:
        return None
    refused = None
    if refusal is not None:
        refused = {
            "code": refusal.code,
            "message": refusal.message,
            "worker": refusal.worker,
            "waited_s": (refusal.at_ns - refusal.arrived_ns) / _NS,
            "skips": refusal.skips,
            "age_s": (now - refusal.at_ns) / _NS,
        }
    return {
        "call_id": call_id,
        "placements": placements,
        "waiting": waiting,
        "refused": refused,
        "kept": len(history),
        "limit": history.limit,
    }


def _waiting(core: SchedulerCore, call_id: str) -> dict[str, Any] | None:
    for position, r in enumerate(core.state.queue):
        if call_id in (r.call_id, base(r.call_id)):
            waited_s = (core.state.now_ns - r.arrived_ns) / _NS
            return {"worker": r.worker, "ahead": position, "skips": r.skips, "waited_s": waited_s, "parked": False}
    for r in core.room.parked.values():
        if call_id in (r.call_id, base(r.call_id)):
            waited_s = (core.state.now_ns - r.arrived_ns) / _NS
            return {"worker": r.worker, "ahead": 0, "skips": r.skips, "waited_s": waited_s, "parked": True}
    return None


def _placement(p: Placement, course: Course, now: int) -> dict[str, Any]:
    began = course.began_ns >= 0
    return {
        "call_id": p.call_id,
        "binding": p.binding_id,
        "worker": p.worker,
        "slice": p.slice,
        "policy": p.policy,
        "reason": p.reason,
        "batch": p.batch or None,
        "sla_s": p.sla_ns / _NS if p.sla_ns else None,
        "age_s": (now - p.at_ns) / _NS,
        "local": p.local,
        "skips": p.skips,
        "expected": "hit" if p.hit else "false miss" if p.false_miss else "miss",
        "found": ("hit" if course.hit else "false miss" if course.false_miss else "miss") if began else None,
        "holders": list(p.holders),
        "slices": p.slices,
        "considered": [_seen(one, p.slice) for one in p.seen],
        "foreseen_victims": list(p.foreseen),
        "evicted": [worker for load in course.loads for worker in load.evicted],
        "estimated": {"load_s": p.load_ns / _NS, "turn_s": p.turn_ns / _NS},
        "measured": {
            "load_s": sum(load.took_ns for load in course.loads) / _NS,
            "turn_s": course.turn_ns / _NS,
            "infer_s": course.infer_ns / _NS,
            "turns": course.turns,
            "calls": course.calls,
        },
        "phases": _phases(p, course),
        "state": _state(course),
        "code": course.code,
        "why": course.why,
    }


def _seen(one: Seen, chosen: str) -> dict[str, Any]:
    return {
        "slice": one.slice,
        "chosen": one.slice == chosen,
        "status": one.status,
        "held": one.held,
        "fits": one.fits,
        "local_queue": one.waiting,
        "free_in_s": one.free_in_ns / _NS if one.free_in_ns >= 0 else None,
        "free_bytes": one.free_bytes,
    }


def _phases(p: Placement, course: Course) -> list[dict[str, Any]]:
    """queued, loaded, waited (at the slice: for the call, a load, other turns), inferred; a load is part of waiting."""
    arrived = p.at_ns - p.queued_ns

    def phase(name: str, since_ns: int, until_ns: int) -> dict[str, Any]:
        since_ns = min(since_ns, until_ns)
        return {"phase": name, "from_s": (since_ns - arrived) / _NS, "took_s": (until_ns - since_ns) / _NS}

    found = [phase("queued", arrived, p.at_ns)]
    found += [phase("loaded", load.at_ns - load.took_ns, load.at_ns) for load in course.loads if not load.code]
    if course.began_ns >= 0:
        found.append(phase("waited", p.at_ns, course.began_ns))
        if course.turned_ns >= 0:
            found.append(phase("inferred", course.began_ns, course.turned_ns))
    elif course.ended_ns >= 0:
        found.append(phase("waited", p.at_ns, course.ended_ns))
    return found


def _state(course: Course) -> str:
    if course.ended_ns >= 0:
        return "taken back" if course.code else "over"
    if course.began_ns < 0:
        return "bound"
    return "running" if course.turned_ns < 0 else "turn over"
