"""Locality-aware load balancing with out-of-order dispatch (arXiv 2303.05601, Algorithms 1 and 2).

Requests follow their model: to an idle slice that holds it, overtaking others at most `o3_limit` times
(section "O3 Dispatch"); to a busy slice that holds it when waiting there is estimated to end sooner
than loading elsewhere; else to an idle slice, as a miss.
"""

from __future__ import annotations

from scheduler.core.policies.base import Decision, Parameter, Policy
from scheduler.core.requests import Request
from scheduler.core.state import State

DEFAULT_O3_LIMIT = 25  # the paper's


class LocalityAware(Policy):
    """LALB; `o3_limit` 0 keeps strict arrival order."""

    name = "lalb"

    def __init__(self, o3_limit: int = DEFAULT_O3_LIMIT) -> None:
        self.o3_limit = o3_limit

    def parameters(self) -> dict[str, Parameter]:
        """Name and limit."""
        return {"name": self.name, "o3_limit": self.o3_limit}

    def decide(self, state: State) -> Decision | None:
        """Algorithm 1, one turn of its loop.

        The paper walks Q from the head until a request can hit or is at its limit. The index of the
        queue gives both at once; whichever stands nearer the head is what the walk meets first.
        """
        head = state.queue.head
        if head is None or not state.any_idle():
            return None
        limited = state.queue.first_skipped(self.o3_limit)
        hit = state.first_hit()
        if hit is not None and (limited is None or hit[0].order <= limited.order):  # lines 6-10: hit on an idle slice
            r, g = hit
            return Decision(r, g, f"{r.worker} is on idle {g.id}")
        if limited is not None:  # lines 11-14: overtaken o3_limit times, placed at once
            return self._place(state, limited)
        return self._place(state, head)

    def _place(self, state: State, r: Request) -> Decision | None:
        """Algorithm 2: wait for a busy slice that holds the model, or load it on an idle one."""
        if not state.any_idle_for(r):
            return None
        miss = state.roomiest_idle(r)
        finish_miss = None if miss is None else state.finish_miss(miss, r)
        best = None
        for g in state.busy_holders(r):
            finish = state.finish_hit(g, r)
            if best is None or finish < best[0]:
                best = (finish, g)
        if best is not None and (finish_miss is None or best[0] < finish_miss):  # line 12
            finish, g = best
            against = "no idle slice can hold it" if finish_miss is None else f"loading would take {_s(finish_miss)}"
            return Decision(r, g, f"{g.id} holds {r.worker} and would finish in {_s(finish)}; {against}", local=True)
        if miss is not None and finish_miss is not None:  # line 17
            against = "no other slice holds it" if best is None else f"waiting for {best[1].id} takes {_s(best[0])}"
            return Decision(r, miss, f"load on idle {miss.id}, done in {_s(finish_miss)}; {against}")
        return None


def _s(ns: int) -> str:
    return f"{ns / 1e9:.3f} s"
