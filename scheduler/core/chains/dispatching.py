"""Which chain a job takes when it arrives, and who follows when a job is done.

`Dispatcher` keeps the jobs of all chains; a `ChainPolicy` only says where an arrival goes. Jobs neither move nor are
preempted. The product's policy is JFFC (arXiv 2604.14993, Algorithm 3); those it is compared with belong to the
simulator. Time, and how long a job of which size takes, belong to whoever drives this.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from scheduler.core.chains.model import Chain


@dataclass(frozen=True, slots=True)
class Start:
    """Job `job` begins on chain `chain` now."""

    job: int
    chain: int


class ChainPolicy(ABC):
    """Where arrivals go."""

    name: ClassVar[str]

    @abstractmethod
    def choose(self, jobs: Sequence[int]) -> int | None:
        """The chain for an arrival, None for the central queue. jobs[k]: Z_k, running on k or waiting for k alone.

        A chain whose Z_k is at its capacity may be chosen: the job waits for that chain.
        """


class JoinFastestFreeChain(ChainPolicy):
    """JFFC: the fastest chain with a free slot, else the central queue. Stable whenever lambda < nu."""

    name = "jffc"

    def __init__(self, chains: Sequence[Chain]) -> None:
        self._capacities = [chain.capacity for chain in chains]
        self._fastest_first = sorted(range(len(chains)), key=lambda k: (chains[k].time_ns, k))

    def choose(self, jobs: Sequence[int]) -> int | None:
        """Algorithm 3, arrival: among chains with Z_k < c_k the one with the largest mu_k; ties by index."""
        return next((k for k in self._fastest_first if jobs[k] < self._capacities[k]), None)


class Dispatcher:
    """The jobs on the chains, those that wait for one chain, and the central queue."""

    def __init__(self, chains: Sequence[Chain], policy: ChainPolicy) -> None:
        self._capacities = [chain.capacity for chain in chains]
        self._policy = policy
        self.jobs = [0] * len(chains)  # Z_k
        self._own: list[deque[int]] = [deque() for _ in chains]
        self._central: deque[int] = deque()

    @property
    def waiting(self) -> int:
        """Jobs that have not started."""
        return len(self._central) + sum(map(len, self._own))

    def arrive(self, job: int) -> Start | None:
        """A job comes; None: it waits."""
        k = self._policy.choose(self.jobs)
        if k is None:
            self._central.append(job)
            return None
        self.jobs[k] += 1
        if self.jobs[k] > self._capacities[k]:
            self._own[k].append(job)
            return None
        return Start(job, k)

    def complete(self, chain: int) -> Start | None:
        """A job of `chain` is done. Who waits for this chain starts there, else the head of the central queue."""
        if self._own[chain]:
            self.jobs[chain] -= 1
            return Start(self._own[chain].popleft(), chain)
        if self._central:
            return Start(self._central.popleft(), chain)  # Z_k is unchanged
        self.jobs[chain] -= 1
        return None
