"""The papers' baseline: a load balancer that sees neither caches nor local queues.

LALB paper, section on the default scheduler: whenever a slice is idle it gets the head of the queue.
"""

from __future__ import annotations

from scheduler.core.policies.base import Decision, Policy
from scheduler.core.state import State


class LoadBalancing(Policy):
    """Head of the global queue to the idle slice of lowest index that the worker fits."""

    name = "lb"

    def decide(self, state: State) -> Decision | None:
        """Bind the head, or nobody: a head that fits no idle slice blocks the rest."""
        r = state.queue.head
        if r is None:
            return None
        for g in state.maybe_idle():
            if state.idle(g, r) and state.fits(g, r):
                return Decision(r, g, f"head of the queue to {g.id}, the first idle slice")
        return None


class FirstIdleFirstServe(LoadBalancing):
    """The same rule by the name that the MIG paper gives its baseline (arXiv 2202.13481, Figure 5)."""

    name = "fifs"
