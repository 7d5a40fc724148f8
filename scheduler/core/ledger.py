"""Every binding from its making to its end, whoever ends it: its owner, its slice, a loss, a stall.

The ledger is the one place that takes a binding off its slice, so that no path can forget a counter.
It does not choose slices; that is the policy's.
"""

from __future__ import annotations

from collections import OrderedDict

from scheduler.core.history import base
from scheduler.core.instructions import Instruction, TellOwner, Unbind
from scheduler.core.records import Records
from scheduler.core.requests import Request
from scheduler.core.slices import Bound, Slice, Stage
from scheduler.core.state import State

# Ids and calls remembered after their end; far more than can be under way between two processes.
_REMEMBERED = 10_000
_TOMBSTONE_NS = 1_000_000_000  # a report that shows an ended binding this much later was not merely under way

GONE = "binding_gone"
LOST = "slice_lost"


class Ledger:
    """Bindings by id and by owner. `out` collects the instructions of the event being handled."""

    def __init__(self, state: State, records: Records, out: list[Instruction]) -> None:
        self._state = state
        self._records = records
        self._out = out
        self.bound: dict[str, Bound] = {}
        self._of_owner: dict[str, dict[str, Bound]] = {}
        self._of_call: dict[tuple[str, str], Bound] = {}
        self._orphans: dict[str, Bound] = {}
        self._ended: OrderedDict[str, int] = OrderedDict()
        self._overtaken: OrderedDict[str, Bound] = OrderedDict()  # ended before the end of their turn was heard
        self._claims: OrderedDict[str, str] = OrderedDict()
        # (call id, worker) of calls whose binding was taken back -> (arrived_ns, skips)
        self._returned: OrderedDict[tuple[str, str], tuple[int, int]] = OrderedDict()

    def __len__(self) -> int:
        return len(self.bound)

    # ------------------------------------------------------------------ making

    def enter(self, b: Bound) -> None:
        """A binding was made, or found."""
        g = b.slice
        self.bound[b.id] = g.bound[b.id] = b
        if b.request.owner:
            self._of_owner.setdefault(b.request.owner, {})[b.id] = b
        if b.request.call_id:
            self._of_call[b.request.owner, b.request.call_id] = b
        if b.orphaned_ns >= 0:
            self._orphans[b.id] = b
        if self._state.tuning.gaps or g.running is not None or g.waiting:
            g.waiting.append(b)
            self._state.occupied(g, longer=True)
        else:
            self._start_at_once(b)

    def _start_at_once(self, b: Bound) -> None:
        """As in the papers: the slice is free, so the request starts, loading first if it must."""
        g, now = b.slice, self._state.now_ns
        b.hit, b.load_ns = b.request.worker in g.held, 0  # those before it in the local queue may have changed it
        if not b.hit:
            g.foresee(b.request.worker, self._state.estimates.held_bytes(b.request.worker), now)
            b.load_ns = self._state.estimates.load_ns(b.request.worker)
        b.turn_ns += b.load_ns
        self.start(b)

    def start(self, b: Bound) -> None:
        """`b` occupies its slice from now on."""
        g = b.slice
        if g.running is b:
            return
        if g.running is not None:  # its end was not heard
            self._pass(g.running)
        if b in g.waiting:
            g.waiting.remove(b)
        b.stage, b.started_ns, b.missing_ns = Stage.TURN, self._state.now_ns, -1
        g.running = b
        g.touch(b.request.worker)
        self._state.occupied(g)

    def finish_turn(self, b: Bound) -> int:
        """`b` gave its turn back; how long it had it, 0 if it had none."""
        if b.slice.running is not b:
            return 0
        took = self._state.now_ns - b.started_ns
        self._pass(b)
        return took

    def _pass(self, b: Bound) -> None:
        g = b.slice
        g.busy_ns += self._state.now_ns - b.started_ns
        g.running, g.stalled = None, False
        b.stage = Stage.PASSED
        if not self._state.tuning.gaps and g.waiting:
            head = g.waiting.pop(0)
            self._start_at_once(head)
        else:
            self._state.occupied(g)

    # ------------------------------------------------------------------ ending

    def end(self, b: Bound, code: str = "", why: str = "") -> None:
        """Take a binding off its slice and out of every index; `code` is for one that its owner still wanted."""
        g = b.slice
        if self.bound.pop(b.id, None) is None:
            return
        course = self._records.recent.course(b.id)
        if course is not None:
            course.ended_ns, course.code, course.why = self._state.now_ns, code, why
        g.bound.pop(b.id, None)
        if self._state.tuning.gaps and b.stage is not Stage.PASSED:
            self._overtaken[b.id] = b
            if len(self._overtaken) > _REMEMBERED:
                self._overtaken.popitem(last=False)
        if b.stage is Stage.WAITING:
            g.waiting.remove(b)
            self._state.occupied(g)
            if not b.hit and not b.reported:
                g.unforesee(b.request.worker)
        elif b.stage is Stage.TURN:
            self._pass(b)
        if self._of_call.get((b.request.owner, b.request.call_id)) is b:
            del self._of_call[b.request.owner, b.request.call_id]
        owned = self._of_owner.get(b.request.owner)
        if owned is not None:
            owned.pop(b.id, None)
            if not owned:
                del self._of_owner[b.request.owner]
        self._orphans.pop(b.id, None)
        self._ended[b.id] = self._state.now_ns
        if len(self._ended) > _REMEMBERED:
            self._ended.popitem(last=False)

    def give_up(self, b: Bound, reason: str) -> None:
        """Its owner needs it no more: end it and have the slice forget it."""
        soon = b.stage is Stage.PASSED and not b.slice.waiting
        self.end(b, why=reason)
        self._out.append(Unbind(reason, b.id, b.slice.id, b.slice.spec.node, GONE, soon))

    def overtaken(self, binding_id: str, *, over: bool) -> Bound | None:
        """The binding, if it ended before its slice said that its turn began or is `over`; then it is forgotten."""
        return self._overtaken.pop(binding_id, None) if over else self._overtaken.get(binding_id)

    def take_back(self, b: Bound, code: str, reason: str) -> None:
        """End a binding that its owner still wants; the call keeps its place in line if it is placed again."""
        r = b.request
        self.end(b, code, reason)
        self._records.taken_back[code] += 1
        self._returned[base(r.call_id), r.worker] = (r.arrived_ns, r.skips)
        if len(self._returned) > _REMEMBERED:
            self._returned.popitem(last=False)
        self._out.append(Unbind(reason, b.id, b.slice.id, b.slice.spec.node, code))
        if r.owner:
            self._out.append(TellOwner(reason, r.owner, r.call_id, b.id, code, r.worker))

    def returned(self, call_id: str, worker: str) -> tuple[int, int] | None:
        """(arrived_ns, skips) of a call whose binding was taken back, once."""
        return self._returned.pop((base(call_id), worker), None)

    def forget_returned(self, call_id: str, worker: str) -> None:
        """The call is over; should its id be used again, that is another call."""
        self._returned.pop((base(call_id), worker), None)

    def lose(self, g: Slice, reason: str) -> None:
        """A slice is gone with all that was bound to it."""
        for b in list(g.bound.values()):
            self.take_back(b, LOST, reason)
        g.clear()
        g.given_up = True

    def stall(self, g: Slice) -> None:
        """The running turn is far beyond its estimate: what waits behind it goes elsewhere."""
        run = g.running
        assert run is not None
        g.stalled = True
        ran_s = (self._state.now_ns - run.started_ns) / 1e9
        for b in list(g.waiting):
            why = f"{g.id} is held by {run.request.worker} for {ran_s:.1f} s, estimated {run.turn_ns / 1e9:.3f} s"
            self.take_back(b, GONE, why)

    # ------------------------------------------------------------------ owners

    def of_owner(self, owner: str, binding_id: str) -> Bound | None:
        """A binding, if it is this owner's."""
        b = self.bound.get(binding_id)
        return b if b is not None and b.request.owner == owner else None

    def of_call(self, owner: str, call_id: str) -> Bound | None:
        """The binding that this owner has for this call."""
        return self._of_call.get((owner, call_id))

    def owner_gone(self, owner: str) -> None:
        """Its bindings wait for it to come back."""
        for b in self._of_owner.get(owner, {}).values():
            b.orphaned_ns = self._state.now_ns
            self._orphans[b.id] = b

    def owner_back(self, owner: str, holds: tuple[str, ...]) -> None:
        """End what it no longer holds, keep and claim what it does."""
        held = set(holds)
        for b in list(self._of_owner.get(owner, {}).values()):
            if b.id not in held:
                self.give_up(b, f"{owner} came back without it")
        for binding_id in holds:
            known = self.bound.get(binding_id)
            if known is not None:
                self._claim(known, owner)
            elif binding_id in self._ended:
                self._out.append(TellOwner("it ended while its owner was away", owner, "", binding_id, GONE))
            else:
                self._claims[binding_id] = owner
                if len(self._claims) > _REMEMBERED:
                    self._claims.popitem(last=False)

    def _claim(self, b: Bound, owner: str) -> None:
        if b.request.owner not in ("", owner):
            return
        b.request.owner = owner
        b.orphaned_ns = -1
        self._orphans.pop(b.id, None)
        self._of_owner.setdefault(owner, {})[b.id] = b

    def drop_orphans(self) -> None:
        """End bindings whose owner did not come back in time."""
        now, tuning = self._state.now_ns, self._state.tuning
        for b in list(self._orphans.values()):
            grace = tuning.adopt_grace_ns if not b.request.owner else tuning.owner_grace_ns
            if now - b.orphaned_ns >= grace:
                self.give_up(b, "its owner did not come back")

    # ------------------------------------------------------------------ bindings in reports

    def meet(self, g: Slice, binding_id: str, worker: str, turn: bool, arrived: bool) -> None:
        """A report shows a binding at `g`."""
        b = self.bound.get(binding_id)
        if b is None:
            ended = self._ended.get(binding_id)
            if ended is None:
                b = self._adopt(g, binding_id, worker)
            elif self._state.now_ns - ended > _TOMBSTONE_NS:
                self._out.append(Unbind("it ended here long ago", binding_id, g.id, g.spec.node, GONE))
        if b is None or b.slice is not g:
            return
        b.reported, b.arrived = True, arrived
        if turn:
            self.start(b)
        elif b.stage is Stage.TURN and self.missing(b):
            self._pass(b)
        if turn or b.stage is not Stage.TURN:
            b.missing_ns = -1

    def missing(self, b: Bound) -> bool:
        """A report does not show what should be there; whether that has been so for too long."""
        if b.missing_ns < 0:
            b.missing_ns = self._state.now_ns
        return self._state.now_ns - b.missing_ns >= self._state.tuning.settle_ns

    def _adopt(self, g: Slice, binding_id: str, worker: str) -> Bound:
        now = self._state.now_ns
        owner = self._claims.pop(binding_id, "")
        r = Request(owner, "", worker, 0, 0, now, 0, 0)
        b = Bound(binding_id, r, g, hit=True, bound_ns=now, load_ns=0, turn_ns=0, ready_ns=now)
        b.turn_ns = self._state.estimates.turn_ns(worker, g.spec.gpcs, 0)
        b.adopted = True
        b.orphaned_ns = -1 if owner else now
        self.enter(b)
        return b
