"""What every slice holds, from the reports of GPU managers: the newest report is the truth.

Reports are level-triggered and whole, on change and every second, so a lost one heals by itself and
a late one is told by its sequence number. A GPU manager that starts again counts from the beginning;
it has been silent for longer than an old report can be under way.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from proto.types.slices import SliceState, SliceStatus

SECOND_NS = 1_000_000_000
# Three reports missing: the node is gone or hangs.
SILENT_NS = 3 * SECOND_NS
# A slice that nobody has reported for so long was taken away; its record goes.
FORGET_NS = 60 * SECOND_NS


@dataclass(slots=True)
class Known:
    """One slice: its last report and what only a look over time can tell (nanoseconds)."""

    state: SliceState
    heard_ns: int
    since_ns: dict[str, int] = field(default_factory=dict)  # worker key -> when it was first seen here
    turn_seen_ns: int = 0
    last_turn_ns: int = 0  # how long the last finished turn took
    lost: bool = False


class Lists:
    """All slices that were heard of, by id. Times are the caller's, from one monotonic clock."""

    def __init__(self) -> None:
        self._known: dict[str, Known] = {}

    def __iter__(self) -> Iterator[Known]:
        return iter(self._known.values())

    def get(self, slice_id: str) -> Known | None:
        """What is known of a slice."""
        return self._known.get(slice_id)

    def report(self, state: SliceState, now_ns: int) -> bool:
        """Take in a report; False if a newer one was here before."""
        known = self._known.get(state.spec.id)
        if known is None:
            known = self._known[state.spec.id] = Known(state, now_ns)
        elif state.sequence <= known.state.sequence and now_ns - known.heard_ns < SILENT_NS:
            return False
        else:
            self._note_turn(known, state, now_ns)
        if state.turn and not known.turn_seen_ns:
            known.turn_seen_ns = now_ns
        known.state, known.heard_ns, known.lost = state, now_ns, False
        known.since_ns = {item.key: known.since_ns.get(item.key, now_ns) for item in state.workers}
        return True

    def expire(self, now_ns: int) -> tuple[list[str], list[str]]:
        """(slices that have just fallen silent, slices that are forgotten now)."""
        silent, forgotten = [], []
        for slice_id, known in list(self._known.items()):
            quiet_ns = now_ns - known.heard_ns
            if quiet_ns >= FORGET_NS:
                del self._known[slice_id]
                forgotten.append(slice_id)
            elif quiet_ns >= SILENT_NS and not known.lost:
                known.lost = True
                silent.append(slice_id)
        return silent, forgotten

    def oldest_age_ns(self, slice_id: str, now_ns: int) -> int:
        """How long the worker that has been on a slice for longest has been there; 0 without workers."""
        known = self._known.get(slice_id)
        return now_ns - min(known.since_ns.values()) if known and known.since_ns else 0

    @staticmethod
    def _note_turn(known: Known, state: SliceState, now_ns: int) -> None:
        if known.state.turn and state.turn != known.state.turn:
            known.last_turn_ns = now_ns - known.turn_seen_ns
            known.turn_seen_ns = 0


def describe(known: Known) -> dict[str, Any]:
    """A slice as etcd and people see it: status, LRU list (least recently used first), last latency."""
    state = known.state
    return {
        "node": state.spec.node,
        "index": state.spec.index,
        "kind": state.spec.kind,
        "gpcs": state.spec.gpcs,
        "memory_bytes": state.spec.memory_bytes,
        "free_bytes": state.free_bytes,
        "pool": state.pool,
        "status": SliceStatus.LOST.value if known.lost else state.status.value,
        "lru": [
            {
                "worker": item.key,
                "status": item.status.value,
                "held_bytes": item.held_bytes,
                "models": list(item.models),
            }
            for item in state.workers
        ],
        "last_latency_s": known.last_turn_ns / SECOND_NS,
    }
