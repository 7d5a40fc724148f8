"""BPRR as a baseline: conservative greedy block placement (CG-BP) and waiting-penalised shortest paths (WS-RR).

Sun et al., Performance Evaluation 2025, as arXiv 2604.14993 compares with it: one orchestrator, so that a server's
communication time is the same for all jobs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from scheduler.core.chains.model import Placed, Server, Service, whole
from simulator.chains.paths import Path, path_time_ns, shortest_path
from simulator.chains.sessions import Router, Slots


def most_concurrent(service: Service, servers: Sequence[Server]) -> int:
    """The largest R that CG-BP is made for: floor((sum M - s_m (L + J)) / (s_c (L + J))), at least 0."""
    spread = service.blocks + len(servers)
    room_gb = math.fsum(server.memory_gb for server in servers) - service.block_gb * spread
    return max(0, whole(room_gb / (service.cache_gb * spread)))


def design_concurrency(service: Service, servers: Sequence[Server]) -> int:
    """R as in the authors' runs: mean plus one standard deviation of Poisson jobs at once, within what is possible.

    The mean is lambda T, with the T of the fastest path when room for one job at a time is kept.
    """
    one = bprr_placement(service, servers, 1)
    path = shortest_path(service.blocks, one, lambda node, m: servers[node.server].time_ns(m))
    if path is None:
        return 1
    mean = service.rate_rps * path_time_ns(servers, path) / 1e9
    return max(1, min(round(mean + math.sqrt(mean)), most_concurrent(service, servers)))


def bprr_placement(service: Service, servers: Sequence[Server], concurrent: int) -> list[Placed]:
    """CG-BP for R = `concurrent` jobs at once; the blocks may stay incomplete where sum m_j < L.

    Servers by amortised time; each takes the window that needs it most. Until every block has capacity R, that is the
    window with an under-served block whose summed times are largest, a virtual slow server serving what nobody does;
    then the window whose sorted capacities are lexicographically smallest. Ties to the smaller start.
    """
    r = concurrent
    m = [service.hosted(server, r) for server in servers]
    amortised = {j: server.time_ns(m[j]) / m[j] for j, server in enumerate(servers) if m[j] >= 1}
    if not amortised:
        return []
    virtual = max(amortised.values()) + 1e9
    capacity = [0] * (service.blocks + 1)  # C_b of blocks 1 .. L
    slow = [0.0, *[r * virtual] * service.blocks]  # T_b
    placed = []
    for j in sorted(amortised, key=lambda j: (amortised[j], j)):
        starts = range(1, service.blocks - m[j] + 2)
        lacking = [a for a in starts if min(capacity[a : a + m[j]]) < r]
        if lacking:
            first = max(lacking, key=lambda a: (math.fsum(slow[a : a + m[j]]), -a))
        else:
            first = min(starts, key=lambda a: (sorted(capacity[a : a + m[j]]), a))
        placed.append(Placed(j, first, m[j]))
        sessions = service.slots(servers[j], m[j]) // m[j]
        for block in range(first, first + m[j]):
            slow[block] -= (virtual - amortised[j]) * min(max(r - capacity[block], 0), sessions)
            capacity[block] += sessions
    return placed


@dataclass(frozen=True, slots=True)
class _Held:
    """A session holds `slots` of a server until about `until_ns`: what the router knows, the mean, not the size."""

    until_ns: int
    slots: int


class BprrRouter(Router):
    """WS-RR: shortest path whose links cost their time and how long the server is expected to lack room.

    A job keeps its path and starts when all of it has room; jobs that share a server start in the order of arrival.
    """

    def __init__(self, slots: Slots) -> None:
        self._slots = slots
        self._held: dict[int, dict[int, _Held]] = {node.server: {} for node in slots.placed}  # server -> job -> held
        self._waiting: dict[int, Path] = {}
        if self._path(0) is None:
            raise ValueError("no path through the placed blocks has room for a job")

    def arrive(self, job: int, now_ns: int) -> Path | None:
        """Choose the path; start if there is room and nobody waits for one of its servers."""
        path = self._path(now_ns)
        assert path is not None
        starts_ns = now_ns + max(self._wait_ns(hop.server, hop.blocks, now_ns) for hop in path)
        self._hold(job, path, starts_ns)
        wanted = {hop.server for other in self._waiting.values() for hop in other}
        if self._slots.room(path) and not wanted.intersection(hop.server for hop in path):
            return path
        self._waiting[job] = path
        return None

    def retry_ns(self, job: int, now_ns: int) -> None:
        """It waits for completions."""

    def complete(self, job: int, now_ns: int) -> list[tuple[int, Path]]:
        """Start whoever has room now, in the order of arrival, but nobody past one that waits for the same server."""
        for held in self._held.values():
            held.pop(job, None)
        free = dict(self._slots.free)
        wanted: set[int] = set()
        starting = []
        for other, path in self._waiting.items():
            room = all(free[hop.server] >= hop.blocks for hop in path)
            if room and not wanted.intersection(hop.server for hop in path):
                starting.append((other, path))
                for hop in path:
                    free[hop.server] -= hop.blocks
            else:
                wanted.update(hop.server for hop in path)
        for other, path in starting:
            del self._waiting[other]
            self._hold(other, path, now_ns)
        return starting

    def _hold(self, job: int, path: Path, starts_ns: int) -> None:
        until_ns = starts_ns + path_time_ns(self._slots.servers, path)
        for hop in path:
            self._held[hop.server][job] = _Held(until_ns, hop.blocks)

    def _path(self, now_ns: int) -> Path | None:
        def cost(node: Placed, m: int) -> int | None:
            if self._slots.total[node.server] < m:
                return None  # not even an empty server has room
            return self._slots.servers[node.server].time_ns(m) + self._wait_ns(node.server, m, now_ns)

        return shortest_path(self._slots.service.blocks, self._slots.placed, cost)

    def _wait_ns(self, server: int, m: int, now_ns: int) -> int:
        """wait_ij(t): until sessions that run or wait here are expected to have left m slots; 0 if there is room."""
        held = self._held[server].values()
        free = self._slots.total[server] - sum(one.slots for one in held)
        until_ns = now_ns
        for one in sorted(held, key=lambda one: one.until_ns):
            if free >= m:
                break
            free += one.slots
            until_ns = max(until_ns, one.until_ns)  # one that takes longer than the mean may leave at any moment
        return until_ns - now_ns
