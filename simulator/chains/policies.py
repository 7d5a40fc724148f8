"""The dispatching policies that JFFC is compared with (arXiv 2604.14993, section 4), over chains with capacities.

Z_k counts the jobs of chain k, running and waiting. JSQ and SED may choose a full chain, where the job then waits;
the others leave a job in the central queue when every chain is full. Random ties are drawn from the generator that
is passed in, one `integers(n)` for each choice among n > 1 chains.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from scheduler.core.chains.dispatching import ChainPolicy, JoinFastestFreeChain
from scheduler.core.chains.model import Chain


class Draw(Protocol):
    """A source of random choices, such as numpy's Generator."""

    def integers(self, low: int, /) -> int:
        """One of 0 .. low - 1, each as likely."""
        ...


class _Randomised(ChainPolicy):
    def __init__(self, chains: Sequence[Chain], random: Draw) -> None:
        self._capacities = [chain.capacity for chain in chains]
        self._random = random

    def _any(self, chains: Sequence[int]) -> int:
        return chains[int(self._random.integers(len(chains)))] if len(chains) > 1 else chains[0]


class JoinShortestQueue(_Randomised):
    """JSQ: the chain with the fewest jobs, full or not; random ties."""

    name = "jsq"

    def choose(self, jobs: Sequence[int]) -> int | None:
        """argmin Z_k."""
        fewest = min(jobs)
        return self._any([k for k, z in enumerate(jobs) if z == fewest])


class JoinIdleQueue(_Randomised):
    """JIQ: any chain without a job, else any with a free slot, else the central queue."""

    name = "jiq"

    def choose(self, jobs: Sequence[int]) -> int | None:
        """Random k with Z_k = 0, else random k with Z_k < c_k."""
        idle = [k for k, z in enumerate(jobs) if z == 0]
        if idle:
            return self._any(idle)
        free = [k for k, z in enumerate(jobs) if z < self._capacities[k]]
        return self._any(free) if free else None


class ShortestExpectedDelay(ChainPolicy):
    """SED: the chain where the job is expected to be done first, full or not; ties by index."""

    name = "sed"

    def __init__(self, chains: Sequence[Chain]) -> None:
        self._chains = [(chain.time_ns, chain.capacity) for chain in chains]

    def choose(self, jobs: Sequence[int]) -> int | None:
        """argmin 1/mu_k + max(Z_k - c_k + 1, 0) / (mu_k c_k); one division of whole numbers, so equal ones tie."""
        delays = [time_ns * (c + max(z - c + 1, 0)) / c for z, (time_ns, c) in zip(jobs, self._chains, strict=True)]
        return delays.index(min(delays))


class SpeedAwareShortestQueue(ChainPolicy):
    """SA-JSQ: of the chains with a free slot the one with the fewest jobs, ties to the fastest, then by index."""

    name = "sa-jsq"

    def __init__(self, chains: Sequence[Chain]) -> None:
        self._chains = [(chain.time_ns, chain.capacity) for chain in chains]

    def choose(self, jobs: Sequence[int]) -> int | None:
        """argmin (Z_k, T_k, k) over Z_k < c_k."""
        free = [(z, time_ns, k) for k, (z, (time_ns, c)) in enumerate(zip(jobs, self._chains, strict=True)) if z < c]
        return min(free)[2] if free else None


def make_policy(name: str, chains: Sequence[Chain], random: Draw) -> ChainPolicy:
    """The policy of a name, jffc included."""
    match name:
        case "jffc":
            return JoinFastestFreeChain(chains)
        case "jsq":
            return JoinShortestQueue(chains, random)
        case "jiq":
            return JoinIdleQueue(chains, random)
        case "sed":
            return ShortestExpectedDelay(chains)
        case "sa-jsq":
            return SpeedAwareShortestQueue(chains)
    raise ValueError(f"{name} is no policy for chains")
