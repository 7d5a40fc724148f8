"""Jobs arrive at chains: an exact discrete-event simulation over the dispatcher that production uses.

The model of arXiv 2604.14993, section 4: Poisson arrivals, sizes Exp(1), a job of size r takes r / mu_k on chain k,
nobody moves or is preempted. Times are whole nanoseconds; each is rounded once, when it is drawn or scaled. At one
instant completions come first, by chain, then arrivals.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np

from proto.types.errors import SlicewiseError
from scheduler.core.chains.dispatching import ChainPolicy, Dispatcher, Start
from scheduler.core.chains.model import NS, Chain


@dataclass(frozen=True, slots=True)
class Job:
    """A job: when it arrives, and its size in mean sizes."""

    at_ns: int
    size: float


@dataclass(frozen=True, slots=True)
class Served:
    """What became of a job."""

    at_ns: int
    start_ns: int
    finish_ns: int
    chain: int


def poisson_jobs(rate_rps: float, jobs: int, seed: int) -> tuple[list[Job], np.random.Generator]:
    """`jobs` jobs, and the generator they came from, for what a policy draws.

    Drawn from `numpy.random.default_rng(seed)` in this order: all gaps between arrivals (the first one from time 0), by
    `exponential(1 / rate_rps, jobs)` in seconds; then all sizes, by `standard_exponential(jobs)`. Policies draw
    after that, so that all policies see the same jobs. Raises SlicewiseError `bad_request` for a rate too small.
    """
    # No exponential draw of a double passes 40 means by much; 10^6 leaves room for the sum of many.
    if rate_rps * 1e290 < jobs * 1e6:
        raise SlicewiseError("bad_request", f"rate_rps: {rate_rps:g} is too small to be simulated; give more.")
    random = np.random.default_rng(seed)
    gaps = random.exponential(1 / rate_rps, jobs).tolist()
    sizes = random.standard_exponential(jobs).tolist()
    arrivals = accumulate(round(gap * NS) for gap in gaps)
    return [Job(at_ns, size) for at_ns, size in zip(arrivals, sizes, strict=True)], random


def simulate_chains(chains: Sequence[Chain], policy: ChainPolicy, jobs: Sequence[Job]) -> list[Served]:
    """Serve `jobs`, sorted by arrival, until the last is done; records in the order of arrival."""
    run = _Run(chains, policy, jobs)
    for index, job in enumerate(jobs):
        run.complete(until_ns=job.at_ns)
        run.begin(run.dispatcher.arrive(index), job.at_ns)
    run.complete(until_ns=math.inf)
    return [Served(job.at_ns, *served, chain) for job, served, chain in zip(jobs, run.times, run.chain_of, strict=True)]


class _Run:
    """Clockwork of one simulation: the finishes to come, and the records so far."""

    def __init__(self, chains: Sequence[Chain], policy: ChainPolicy, jobs: Sequence[Job]) -> None:
        self.dispatcher = Dispatcher(chains, policy)
        self.times: list[tuple[int, int]] = [(0, 0)] * len(jobs)
        self.chain_of = [0] * len(jobs)
        self._chains = chains
        self._jobs = jobs
        self._finishes: list[tuple[int, int, int]] = []  # ns, chain, job

    def begin(self, start: Start | None, now_ns: int) -> None:
        if start is None:
            return
        job, chain = start.job, start.chain
        finish_ns = now_ns + round(self._jobs[job].size * self._chains[chain].time_ns)
        self.times[job] = (now_ns, finish_ns)
        self.chain_of[job] = chain
        heapq.heappush(self._finishes, (finish_ns, chain, job))

    def complete(self, until_ns: float) -> None:
        while self._finishes and self._finishes[0][0] <= until_ns:
            now_ns, chain, _ = heapq.heappop(self._finishes)
            self.begin(self.dispatcher.complete(chain), now_ns)


def waits_ns(served: Iterable[Served]) -> list[int]:
    """Time from arrival to start, of each."""
    return [job.start_ns - job.at_ns for job in served]


def responses_ns(served: Iterable[Served]) -> list[int]:
    """Time from arrival to finish, of each."""
    return [job.finish_ns - job.at_ns for job in served]
