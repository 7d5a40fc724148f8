"""Which server hosts which blocks: greedy block placement with cache reservation, GBP-CR.

Algorithm 1 of arXiv 2604.14993, section 3.1. Each server keeps memory for the caches of c jobs; servers are
taken by increasing amortised time until the disjoint chains that they form serve the demand. Which paths jobs
then take through the placed blocks, shared servers included, is allocation.py's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from scheduler.core.chains.model import NS, Placed, Server, Service

_RATE_TOLERANCE = 1e-12  # per second: a demand met but for a rounding error of the sum is met


@dataclass(frozen=True, slots=True)
class Placement:
    """What GBP-CR placed, in placing order, and K(c), None (infinite) if the servers ran out first."""

    placed: tuple[Placed, ...]
    disjoint_chains: int | None


def place(service: Service, servers: Sequence[Server], c: int) -> Placement:
    """GBP-CR for c >= 1 reserved jobs a chain; O(J log J).

    K(c) is the smallest K whose first K chains satisfy sum 1/T >= lambda / (rho c). Servers of a last chain that
    stayed unfinished are placed too; GCA may use them. Servers without room for a block are never placed.
    """
    m = [service.hosted(server, c) for server in servers]
    needed = service.needed_rate(c) - _RATE_TOLERANCE
    placed: list[Placed] = []
    a, nu, time_ns, chains = 1, 0.0, 0, 0  # line 2
    for j in _by_amortised_time(servers, m):  # lines 1 and 3
        first = min(a, service.blocks - m[j] + 1)  # line 4: shifted back so that the server keeps all its blocks
        placed.append(Placed(j, first, m[j]))
        # Line 5 counts all m_j blocks, also those that the server before has: a lower bound of the rate, Lemma 3.2.
        time_ns += servers[j].time_ns(m[j])
        a = min(a + m[j] - 1, service.blocks) + 1  # line 6
        if a > service.blocks:  # line 7: a chain is complete
            nu += NS / time_ns  # line 8
            chains += 1
            if nu >= needed:  # line 9
                return Placement(tuple(placed), chains)
            a, time_ns = 1, 0  # line 10
    return Placement(tuple(placed), None)


def _by_amortised_time(servers: Sequence[Server], m: Sequence[int]) -> list[int]:
    """Servers that can host a block by increasing t_j(c) / m_j(c), compared exactly; ties by index."""
    return sorted(
        (j for j in range(len(servers)) if m[j] >= 1), key=lambda j: (Fraction(servers[j].time_ns(m[j]), m[j]), j)
    )
