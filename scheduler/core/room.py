"""The waiting room: every request not bound yet, those that a slice could take and those that none can now.

A request whose every fitting slice is lost steps aside (parked), so that it does not block the line for
the others; one that fits no slice at all is refused by name. Deadlines of the waiting are kept here.
"""

from __future__ import annotations

from heapq import heappop, heappush

from scheduler.core.history import Refusal
from scheduler.core.instructions import Instruction, Refuse
from scheduler.core.records import Records
from scheduler.core.requests import Request
from scheduler.core.state import State


class WaitingRoom:
    """Requests by (owner, call id). `out` collects the instructions of the event being handled."""

    def __init__(self, state: State, records: Records, out: list[Instruction]) -> None:
        self._state = state
        self._records = records
        self._out = out
        self._waiting: dict[tuple[str, str], Request] = {}
        self.parked: dict[tuple[str, str], Request] = {}
        self._deadlines: list[tuple[int, int, Request]] = []

    def __len__(self) -> int:
        return len(self._waiting)

    def find(self, owner: str, call_id: str) -> Request | None:
        """The waiting request of a call."""
        return self._waiting.get((owner, call_id))

    def of_owner(self, owner: str) -> list[Request]:
        """All that this owner has waiting, in the order they came."""
        return [r for r in self._waiting.values() if r.owner == owner]

    def enter(self, r: Request, patient: bool) -> None:
        """Let a request in, or refuse it if no slice can ever hold it (`patient`: slices may yet appear)."""
        key = (r.owner, r.call_id)
        self._waiting[key] = r
        if r.deadline_ns:
            heappush(self._deadlines, (r.deadline_ns, r.sequence, r))
        if self._state.tuning.gaps:
            self.parked[key] = r
            self._sort(r, patient)
        else:
            self._state.queue.add(r)

    def leave(self, r: Request) -> None:
        """Take a request out, bound or not."""
        key = (r.owner, r.call_id)
        del self._waiting[key]
        if self.parked.pop(key, None) is None:
            self._state.queue.remove(r)

    def refuse(self, r: Request, code: str, message: str, retry_after_s: float = 0.0) -> None:
        """Take a request out and tell its owner."""
        self.leave(r)
        now = self._state.now_ns
        self._records.refuse(Refusal(now, r.call_id, r.worker, r.arrived_ns, r.skips, code, message))
        self._out.append(Refuse(message, r.owner, r.call_id, code, message, retry_after_s))

    def sort_out(self, patient: bool) -> None:
        """Slices or sizes changed: park, line up or refuse each waiting request anew."""
        for r in list(self._waiting.values()):
            self._sort(r, patient)

    def _sort(self, r: Request, patient: bool) -> None:
        state, key = self._state, (r.owner, r.call_id)
        serving = [g for g in state.slices if state.serves(g, r.worker)]
        if any(g.lost_ns < 0 and state.fits(g, r) for g in serving):
            if self.parked.pop(key, None) is not None:
                state.queue.add(r)
            return
        if key not in self.parked:
            state.queue.remove(r)
            self.parked[key] = r
        if patient or not state.slices or any(state.fits(g, r) for g in serving):
            return
        if not serving:
            self.refuse(r, "no_slice", f"Every slice is reserved for other functions; none serves {r.function}.")
            return
        largest = max(g.spec.memory_bytes for g in serving)
        needed = state.estimates.held_bytes(r.worker)
        self.refuse(
            r,
            "model_too_large",
            f"The models of {r.function} take {needed:,} bytes on a slice; the largest slice has {largest:,}.",
        )

    def expire(self) -> None:
        """Refuse all whose deadline has passed, however busy the slices are."""
        now = self._state.now_ns
        while self._deadlines and self._deadlines[0][0] <= now:
            r = heappop(self._deadlines)[2]
            if self._waiting.get((r.owner, r.call_id)) is r:
                waited_s = (now - r.arrived_ns) / 1e9
                self.refuse(r, "deadline_in_queue", f"No slice was free for {r.function} within {waited_s:.3g} s.")

    def next_deadline(self) -> int | None:
        """When `expire` has something to do."""
        while self._deadlines:
            deadline, _, r = self._deadlines[0]
            if self._waiting.get((r.owner, r.call_id)) is r:
                return deadline
            heappop(self._deadlines)
        return None
