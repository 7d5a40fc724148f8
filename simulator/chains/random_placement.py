"""Servers grouped at random, which GBP-CR is compared with (arXiv 2604.14993, figure 3)."""

from __future__ import annotations

from collections.abc import Sequence

from scheduler.core.chains.model import NS, Server, Service

_RATE_TOLERANCE = 1e-12  # per second, as GBP-CR's


def chains_in_order(service: Service, servers: Sequence[Server], c: int, order: Sequence[int]) -> int | None:
    """How many disjoint chains serve the demand if servers join in `order`; None if they run out first.

    The walk closes a chain as soon as its servers hold sum m_j(c) >= L blocks, and ends when the chains' rates reach
    lambda / (rho c). The objective of the figure is c times this number.
    """
    nu, chains, covered, time_ns = 0.0, 0, 0, 0
    for j in order:
        m = service.hosted(servers[j], c)
        if m < 1:
            continue
        covered += m
        time_ns += servers[j].time_ns(m)
        if covered >= service.blocks:
            chains += 1
            nu += NS / time_ns
            if nu >= service.needed_rate(c) - _RATE_TOLERANCE:
                return chains
            covered, time_ns = 0, 0
    return None
