"""Nodes and slices as they come, report, fall silent and go."""

from __future__ import annotations

from proto.types.slices import SliceSpec, SliceState, WorkerStatus
from scheduler.core.ledger import LOST, Ledger
from scheduler.core.slices import Slice
from scheduler.core.state import State


class Topology:
    """Keeps `state.slices`. Methods answer whether what may be placed where has changed."""

    def __init__(self, state: State, ledger: Ledger) -> None:
        self._state = state
        self._ledger = ledger

    def expect(self, specs: tuple[SliceSpec, ...]) -> bool:
        """Slices that should come back, lost until they report."""
        for spec in specs:
            if spec.id not in self._state.by_id:
                g = self._add(spec)
                g.lost_ns, g.given_up = self._state.now_ns, True
        self._reindex()
        return True

    def join(self, node: str, specs: tuple[SliceSpec, ...]) -> bool:
        """A node's stream began: bindings that it had not taken up are lost, and so are slices it no longer has."""
        now = self._state.now_ns
        ids = {spec.id for spec in specs}
        for g in [g for g in self._state.slices if g.spec.node == node and g.id not in ids]:
            self._remove(g, f"{node} came back without {g.id}")
        for spec in specs:
            g = self._state.by_id.get(spec.id) or self._add(spec)
            g.spec, g.heard_ns, g.sequence = spec, now, -1
            for b in [b for b in g.bound.values() if not b.reported]:
                self._ledger.take_back(b, LOST, f"{node} was away when it was bound")
            for b in g.bound.values():  # the first report says at once whether it has them: it may be another process
                b.missing_ns = now - self._state.tuning.settle_ns
            if self._state.tuning.report_stale_ns:  # until its first report nobody knows what it holds
                g.lost_ns, g.given_up = now, not g.bound
            else:
                g.lost_ns, g.given_up = -1, False
        self._reindex()
        return True

    def leave(self, node: str) -> bool:
        """A node's stream ended: nothing new goes there; its bindings live on for a moment."""
        for g in self._state.slices:
            if g.spec.node == node and g.lost_ns < 0:
                g.lost_ns = self._state.now_ns
        return self.keep_house()

    def report(self, state: SliceState) -> bool:
        """A slice's whole state, but for its pool; older ones than the last are ignored, unknown slices too."""
        g = self._state.by_id.get(state.spec.id)
        if g is None or state.sequence <= g.sequence:
            return False
        now, tuning = self._state.now_ns, self._state.tuning
        was_lost = g.lost_ns >= 0
        g.sequence, g.heard_ns, g.lost_ns, g.given_up = state.sequence, now, -1, False
        g.take_report(state, now, tuning.unseen_grace_ns)
        turning = next((w.key for w in state.workers if w.status is WorkerStatus.TURN), "")
        for binding_id in state.bindings:
            turn = binding_id == state.turn
            self._ledger.meet(g, binding_id, turning if turn else "", turn, binding_id in state.waiting)
        shown = set(state.bindings)
        for b in [b for b in g.bound.values() if b.id not in shown]:
            unseen = not b.reported and now - b.bound_ns >= tuning.unseen_grace_ns
            if unseen or (b.reported and self._ledger.missing(b)):
                self._ledger.take_back(b, LOST, f"{g.id} does not know it any more")
        return was_lost

    def keep_house(self) -> bool:
        """Give up on slices that have been silent or away for too long; forget them after a while."""
        now, tuning = self._state.now_ns, self._state.tuning
        changed = False
        for g in list(self._state.slices):
            if g.lost_ns < 0:
                if tuning.report_stale_ns and now - g.heard_ns >= tuning.report_stale_ns:
                    g.lost_ns, changed = now, True
                    self._ledger.lose(g, f"{g.id} has not reported for {(now - g.heard_ns) / 1e9:.1f} s")
            elif not g.given_up and now - g.lost_ns >= tuning.node_grace_ns:
                changed = True
                self._ledger.lose(g, f"the node {g.spec.node} is gone")
            elif g.given_up and tuning.forget_ns and now - g.lost_ns >= tuning.forget_ns:
                changed = True
                self._remove(g, f"{g.id} did not come back")
                self._reindex()
        return changed

    def _add(self, spec: SliceSpec) -> Slice:
        state = self._state
        g = Slice(spec, len(state.slices), state.tuning, state.holders, heard_ns=state.now_ns)
        state.by_id[spec.id] = g
        state.slices.append(g)
        return g

    def _remove(self, g: Slice, reason: str) -> None:
        self._ledger.lose(g, reason)
        del self._state.by_id[g.id]
        self._state.slices.remove(g)

    def _reindex(self) -> None:
        """Order by node, then by the node's own order: the same slices give the same decisions."""
        self._state.slices.sort(key=lambda g: (g.spec.node, g.spec.index))
        for index, g in enumerate(self._state.slices):
            g.index = index
        self._state.regroup()
