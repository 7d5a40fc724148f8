"""What the chain algorithms speak of: servers, the service that is cut into blocks, placed blocks, chains.

Source of this room: Sun, He, Hou, "Serving chain-structured jobs with large memory footprints"
(arXiv 2604.14993), sections 2 and 3, whose symbols stand in the docstrings. Times are whole nanoseconds,
so that sums and comparisons of times are exact; rates are per second.

Slots are floors of ratios of floats, and 1 / 0.1 or 40 / 1.43 may fall a rounding error short of the whole
number that it is. `whole` is the one place that guards it, and every floor of a ratio of sizes goes through it: 1e-9
of a slot is added first, which covers rounding up to some 10^6 slots a server. What follows is whole numbers only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

NS = 10**9
_SLACK = 1e-9  # far above the rounding error of a ratio of sizes, far below a slot


def whole(ratio: float) -> int:
    """The floor of `ratio`, where a ratio that rounding left just below a whole number is that number."""
    return math.floor(ratio + _SLACK)


@dataclass(frozen=True, slots=True)
class Server:
    """One server (a slice): memory M_j, communication tc_j a job, computation tp_j a block and job."""

    id: str
    memory_gb: float
    comm_ns: int
    block_ns: int

    def time_ns(self, blocks: int) -> int:
        """Mean time of a job that is served `blocks` blocks here: tc_j + tp_j m."""
        return self.comm_ns + self.block_ns * blocks


@dataclass(frozen=True, slots=True)
class Service:
    """What is served: L blocks of s_m GB, s_c GB of cache a block and job, lambda jobs a second, load at most rho."""

    blocks: int
    block_gb: float
    cache_gb: float
    rate_rps: float
    max_load: float

    def hosted(self, server: Server, c: int) -> int:
        """m_j(c) = min(floor(M_j / (s_m + s_c c)), L), equation (8): blocks that leave room for c jobs."""
        return min(whole(server.memory_gb / (self.block_gb + self.cache_gb * c)), self.blocks)

    def slots(self, server: Server, blocks: int) -> int:
        """Mt_j = floor((M_j - s_m m_j) / s_c), equation (3): (block, job) pairs whose cache fits beside m_j blocks."""
        return max(0, whole((server.memory_gb - self.block_gb * blocks) / self.cache_gb))

    def most_jobs(self, servers: Sequence[Server]) -> int:
        """c_max = floor((max_j M_j - s_m) / s_c), section 3.2.3; 0 where no server can hold one block and one job."""
        return self.slots(max(servers, key=lambda server: server.memory_gb), 1) if servers else 0

    def needed_rate(self, c: int) -> float:
        """lambda / (rho c): what the rates of disjoint chains with c jobs each must add up to."""
        return self.rate_rps / (self.max_load * c)


@dataclass(frozen=True, slots=True)
class Placed:
    """Server `server` (its index) hosts blocks `first` .. `first + blocks - 1`, counted from 1: a_j and m_j."""

    server: int
    first: int
    blocks: int

    @property
    def last(self) -> int:
        """a_j + m_j - 1."""
        return self.first + self.blocks - 1


@dataclass(frozen=True, slots=True)
class Chain:
    """Chain k: its servers (indices) in order, mean service time T_k, and the jobs it can hold at once, c_k."""

    servers: tuple[int, ...]
    time_ns: int
    capacity: int

    @property
    def time_s(self) -> float:
        """T_k in seconds."""
        return self.time_ns / NS

    @property
    def rate_rps(self) -> float:
        """mu_k = 1 / T_k, of one job."""
        return NS / self.time_ns


def total_rate(chains: Sequence[Chain]) -> float:
    """nu = sum_k mu_k c_k, equation (4).

    The sum is exact and rounded once, so that it does not depend on the order of the chains: three chains of
    0.1 a second serve 0.3 a second, and a rate of 0.3 is then not below it.
    """
    return float(sum((Fraction(NS * chain.capacity, chain.time_ns) for chain in chains), Fraction(0)))
