"""PETALS as a baseline: servers choose their blocks one after the other, each job looks for a path of its own.

Placement and routing as in the PETALS program, in the setting in which arXiv 2604.14993 compares with it: servers
join in random order and stay where they are, every hop goes through the orchestrator (so that a hop costs tc_j and a
block tp_j), and a job that finds no cache tries again after 1, 2, 4 ... at most 60 s.
"""

from __future__ import annotations

from collections.abc import Sequence

from scheduler.core.chains.model import NS, Placed, Server, Service, whole
from simulator.chains.paths import Path, shortest_path
from simulator.chains.sessions import Router, Slots

ATTENTION_JOBS = 2  # PETALS reserves caches of 4096 tokens, twice the 2048 of a job
_NO_CACHE_NS = 10 * NS
_LONGEST_BACK_OFF_S = 60


def petals_placement(
    service: Service, servers: Sequence[Server], order: Sequence[int], reserved_gb: float = 0.0
) -> list[Placed]:
    """Who hosts what after the servers joined in `order`; `reserved_gb` is what PETALS keeps for autograd.

    A server hosts as many blocks as fit with the caches of ATTENTION_JOBS jobs, and announces its throughput: the mean
    job passes (m + 1) / 2 of its m blocks. Bandwidth, which PETALS counts too, is no part of this model. It takes the
    window whose blocks are served worst, that is, whose sorted throughputs are lexicographically smallest; ties to
    the smaller start.
    """
    throughput = [0.0] * (service.blocks + 1)  # of blocks 1 .. L
    placed = []
    for j in order:
        server = servers[j]
        per_block_gb = service.block_gb + service.cache_gb * ATTENTION_JOBS
        m = min(whole((server.memory_gb - reserved_gb) / per_block_gb), service.blocks)
        if m < 1:
            continue
        starts = range(1, service.blocks - m + 2)
        first = min(starts, key=lambda start: (sorted(throughput[start : start + m]), start))
        placed.append(Placed(j, first, m))
        for block in range(first, first + m):
            throughput[block] += 2 * NS / max(1, server.block_ns * (m + 1))
    return placed


class PetalsRouter(Router):
    """A shortest path at each try, on which a server without cache for all its blocks looks 10 s slower; back-off."""

    def __init__(self, slots: Slots) -> None:
        self._slots = slots
        self._tries: dict[int, int] = {}
        if shortest_path(slots.service.blocks, slots.placed, self._cost) is None:
            raise ValueError("no path through the placed blocks has room for a job")

    def _cost(self, node: Placed, m: int) -> int | None:
        if self._slots.total[node.server] < m:
            return None  # not even an empty server has room
        penalty = 0 if self._slots.free[node.server] >= node.blocks else _NO_CACHE_NS
        return self._slots.servers[node.server].time_ns(m) + penalty

    def arrive(self, job: int, now_ns: int) -> Path | None:
        """A path is used if the caches that it needs are free now."""
        path = shortest_path(self._slots.service.blocks, self._slots.placed, self._cost)
        assert path is not None  # links depend on what is placed, not on who holds it
        if self._slots.room(path):
            self._tries.pop(job, None)
            return path
        return None

    def retry_ns(self, job: int, now_ns: int) -> int:
        """After 1, 2, 4 ... at most 60 s."""
        tries = self._tries[job] = self._tries.get(job, 0) + 1
        return now_ns + min(1 << min(tries - 1, 10), _LONGEST_BACK_OFF_S) * NS

    def complete(self, job: int, now_ns: int) -> list[tuple[int, Path]]:
        """Nobody is told."""
        return []
