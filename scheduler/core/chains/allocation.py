"""Which chains jobs take through placed blocks, and how many at once: greedy cache allocation, GCA.

Algorithm 2 of arXiv 2604.14993, section 3.2. Again and again the shortest path from the first block to the last
takes as many jobs as the caches along it have room for. By Theorem 3.5 these chains suffice for a policy that
always takes the fastest free one, whatever the placement.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from scheduler.core.chains.model import Chain, Placed, Server, Service

_Path = tuple[int, tuple[int, ...]]  # length in ns, positions in the placement


def allocate(service: Service, servers: Sequence[Server], placed: Sequence[Placed]) -> list[Chain]:
    """GCA: chains by non-decreasing time, capacities at least 1; at most O(J^2) of them, O(J^4) in all."""
    return _Network(service, servers, placed).allocate()


class _Network:
    """The graph (J+, E) of one placement, and the slots that are left. Nodes are positions in the placement."""

    def __init__(self, service: Service, servers: Sequence[Server], placed: Sequence[Placed]) -> None:
        self.service = service
        self.servers = servers
        # In the order of server indices, so that the first of several equal choices is the smallest index.
        self.placed = sorted(placed, key=lambda node: node.server)
        self.left = [service.slots(servers[node.server], node.blocks) for node in self.placed]  # R_j = Mt_j
        self.starts = self._neighbours(0)
        self.next = [self._neighbours(node.last) for node in self.placed]
        # A link leads to a later last block; backwards along it, every successor is settled before its predecessors.
        self.backwards = sorted(range(len(self.placed)), key=lambda i: -self.placed[i].last)

    def _neighbours(self, last: int) -> list[int]:
        """E: all j that host the block after `last`, a_j <= a_i + m_i <= a_j + m_j - 1."""
        return [j for j, node in enumerate(self.placed) if node.first <= last + 1 <= node.last]

    def allocate(self) -> list[Chain]:
        """The loop of Algorithm 2."""
        chains = []
        while (shortest := self._shortest_path()) is not None:
            time_ns, path = shortest
            processed = self._processed(path)
            capacity = min(self.left[j] // m for j, m in zip(path, processed, strict=True))
            for j, m in zip(path, processed, strict=True):
                self.left[j] -= m * capacity
            chains.append(Chain(tuple(self.placed[j].server for j in path), time_ns, capacity))
        return chains

    def _processed(self, path: Sequence[int]) -> list[int]:
        """m_ij along a path: the blocks of j that come after those of i, a_j + m_j - a_i - m_i."""
        ends = [0, *(self.placed[j].last for j in path)]
        return [after - before for before, after in pairwise(ends)]

    def _shortest_path(self) -> _Path | None:
        """Shortest path over links with R_j >= m_ij; of equal ones that with the smallest list of server indices.

        Lists from one node on differ in their first server already, so the smallest index at each step is the
        smallest list.
        """
        rest: list[_Path | None] = [None] * len(self.placed)
        for i in self.backwards:
            last = self.placed[i].last
            rest[i] = (0, ()) if last == self.service.blocks else self._best(last, self.next[i], rest)
        return self._best(0, self.starts, rest)

    def _best(self, last: int, choices: Sequence[int], rest: Sequence[_Path | None]) -> _Path | None:
        best: _Path | None = None
        for j in choices:
            tail = rest[j]
            m = self.placed[j].last - last  # m_ij
            if tail is None or self.left[j] < m:
                continue
            length = self.servers[self.placed[j].server].time_ns(m) + tail[0]
            if best is None or length < best[0]:
                best = (length, (j, *tail[1]))
        return best
