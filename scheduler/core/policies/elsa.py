"""Elastic scheduling on slices of several sizes (ELSA, arXiv 2202.13481, Algorithm 2 with equations 1 and 2).

A request is bound the moment it arrives: to the smallest slice that still meets its SLA, so that the
large ones stay free for what needs them; if none does, to the slice that is done with it first.
"""

from __future__ import annotations

import math

from scheduler.core.policies.base import Decision, Parameter, Policy
from scheduler.core.requests import Request
from scheduler.core.slices import Slice
from scheduler.core.state import State


class Elsa(Policy):
    """`alpha` scales the whole predicted latency, `beta` the request's own execution time in it.

    The paper names both and says that they tune the predictor; where they stand in equation 2 is our reading.
    """

    name = "elsa"
    needs_batch = True

    def __init__(self, alpha: float = 1.0, beta: float = 1.0) -> None:
        self.alpha = alpha
        self.beta = beta

    def parameters(self) -> dict[str, Parameter]:
        """Name and both factors."""
        return {"name": self.name, "alpha": self.alpha, "beta": self.beta}

    def decide(self, state: State) -> Decision | None:
        """Bind the oldest request that may go anywhere: at its arrival, unless every slice is closed or full."""
        for r in state.queue:
            decision = self._place(state, r)
            if decision is not None:
                return decision
        return None

    @staticmethod
    def _takes(state: State, g: Slice, r: Request) -> bool:
        full = state.tuning.local_limit and len(g.waiting) >= state.tuning.local_limit
        return not full and state.may(g, r) and state.fits(g, r)

    def _place(self, state: State, r: Request) -> Decision | None:
        """Algorithm 2."""
        soonest: tuple[int, int, int, Slice] | None = None  # T_wait + T_est, GPCs, index
        for partitions in state.by_size:  # lines 2-9: smallest first, of one size those with the shortest T_wait
            times = [(*state.wait_and_service(p, r), p) for p in partitions if self._takes(state, p, r)]
            for t_wait, t_est, p in sorted(times, key=lambda t: (t[0], t[2].index)):
                slack_ns = self.slack(state, r, t_wait, t_est)
                if slack_ns > 0:
                    left = "it has no SLA" if not r.sla_ns else f"its slack there is {_s(slack_ns)}"
                    return self._bind(r, p, f"{p.id} is the smallest slice that will do: {left}")
                rank = (t_wait + t_est, p.spec.gpcs, p.index, p)
                if soonest is None or rank[:3] < soonest[:3]:
                    soonest = rank
        if soonest is None:
            return None
        total_ns, _, _, p = soonest  # lines 10-21
        return self._bind(r, p, f"no slice meets its SLA; {p.id} is done first, in {_s(total_ns)}")

    def slack(self, state: State, r: Request, t_wait: int, t_est: int) -> float:
        """Equation 2 in whole nanoseconds, less what a request sent a second time has waited before."""
        if not r.sla_ns:
            return math.inf
        waited_ns = state.now_ns - r.arrived_ns
        slack_ns = r.sla_ns - waited_ns - self.alpha * (t_wait + self.beta * t_est)
        return round(slack_ns) if math.isfinite(slack_ns) else slack_ns

    @staticmethod
    def _bind(r: Request, p: Slice, reason: str) -> Decision:
        return Decision(r, p, reason, local=p.running is not None or bool(p.waiting))


def _s(ns: float) -> str:
    return f"{ns / 1e9:.3f} s"
