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
            times = [(g, *state.wait_and_service(g, r)) for g in state.slices if self._takes(state, g, r)]
            if times:
                return self._choose(state, r, times)
        return None

    @staticmethod
    def _takes(state: State, g: Slice, r: Request) -> bool:
        full = state.tuning.local_limit and len(g.waiting) >= state.tuning.local_limit
        return not full and state.may(g, r) and state.fits(g, r)

    def _choose(self, state: State, r: Request, times: list[tuple[Slice, int, int]]) -> Decision:
        """Algorithm 2; `times` are (p, T_wait(p), T_est(p, new))."""
        for p, t_wait, t_est in sorted(times, key=lambda t: (t[0].spec.gpcs, t[1], t[0].index)):  # lines 2-9
            slack_ns = self.slack(state, r, t_wait, t_est)
            if slack_ns > 0:
                left = "it has no SLA" if not r.sla_ns else f"its slack there is {_s(slack_ns)}"
                return self._bind(r, p, f"{p.id} is the smallest slice that will do: {left}")
        p, t_wait, t_est = min(times, key=lambda t: (t[1] + t[2], t[0].spec.gpcs, t[0].index))  # lines 10-21
        return self._bind(r, p, f"no slice meets its SLA; {p.id} is done first, in {_s(t_wait + t_est)}")

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
