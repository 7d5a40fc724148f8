"""From a service, its servers and c to the whole plan: placement, chains, rate, bounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from scheduler.core.chains.allocation import allocate
from scheduler.core.chains.bounds import Bounds, bounds
from scheduler.core.chains.model import Chain, Placed, Server, Service, total_rate
from scheduler.core.chains.placement import Placement, place


@dataclass(frozen=True, slots=True)
class ChainPlan:
    """What runs where for c reserved jobs a chain.

    No chains: the servers cannot hold all blocks and the caches of c jobs. No `bounds`: the rate is not below
    `total_rate_rps`, so that a queue grows without end. No `disjoint_chains` (K(c) infinite): disjoint chains alone
    do not serve the demand at the allowed load; the chains found may still do.
    """

    c: int
    placement: tuple[Placed, ...]
    disjoint_chains: int | None
    chains: tuple[Chain, ...]
    total_rate_rps: float
    bounds: Bounds | None


def plan(service: Service, servers: Sequence[Server], c: int) -> ChainPlan:
    """GBP-CR, then GCA, then Theorem 3.7, for one c >= 1."""
    return complete(service, servers, c, place(service, servers, c))


def complete(service: Service, servers: Sequence[Server], c: int, placement: Placement) -> ChainPlan:
    """The plan of a placement that GBP-CR made for c."""
    chains = tuple(allocate(service, servers, placement.placed))
    return ChainPlan(
        c,
        placement.placed,
        placement.disjoint_chains,
        chains,
        total_rate(chains),
        bounds(chains, service.rate_rps) if chains else None,
    )
