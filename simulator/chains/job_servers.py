"""How many jobs at once the demand takes: equation (7) of arXiv 2604.14993 for a given placement (figure 4).

A "job server" is one slot of a chain: sum_k c_k is to be least, with sum_k c_k mu_k >= lambda / rho. GCA takes the
fastest chains first; the optimum over the same chains is an integer program, which scipy solves (extra `figures`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from scheduler.core.chains.model import NS, Chain, Placed, Server, Service

_TOLERANCE = 1e-9  # relative, of the rate: what rounding loses is not missing


def greedy_job_servers(service: Service, chains: Sequence[Chain]) -> int | None:
    """Slots of GCA's chains, fastest first, until they serve lambda / rho; None if all do not."""
    missing, slots = service.needed_rate(1), 0
    for chain in sorted(chains, key=lambda chain: chain.time_ns):
        needed = math.ceil(missing * (1 - _TOLERANCE) / chain.rate_rps)
        if needed <= chain.capacity:
            return slots + needed
        slots += chain.capacity
        missing -= chain.capacity * chain.rate_rps
    return None


def least_job_servers(service: Service, chains: Sequence[Chain]) -> int:
    """A lower bound: ceil(lambda / (rho mu_1)), every slot as fast as the fastest chain."""
    return math.ceil(service.needed_rate(1) * (1 - _TOLERANCE) * min(chain.time_ns for chain in chains) / NS)


def optimal_job_servers(
    service: Service, servers: Sequence[Server], placed: Sequence[Placed], chains: Sequence[Chain]
) -> list[int] | None:
    """c_k of the given chains that minimise their sum under (3) and the demand; None if the demand cannot be met.

    Slots of a server that several chains share are divided as suits best, which GCA's capacities need not do.
    """
    import numpy as np
    from scipy.optimize import Bounds, LinearConstraint, milp

    if not chains:
        return None
    last = {node.server: node.last for node in placed}
    position = {node.server: row for row, node in enumerate(placed)}
    used = np.zeros((len(placed), len(chains)))
    for k, chain in enumerate(chains):
        end = 0
        for j in chain.servers:
            used[position[j], k] = last[j] - end
            end = last[j]
    slots = [service.slots(servers[node.server], node.blocks) for node in placed]
    # In units of the demand, so that the solver's tolerances mean the same at any rate.
    needed = service.needed_rate(1)
    served = np.array([[chain.rate_rps / needed for chain in chains]])
    found = milp(
        np.ones(len(chains)),
        constraints=[LinearConstraint(used, ub=slots), LinearConstraint(served, lb=1 - _TOLERANCE)],
        integrality=np.ones(len(chains)),
        bounds=Bounds(0, np.inf),
    )
    return [round(value) for value in found.x] if found.success else None
