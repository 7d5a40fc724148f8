"""Shortest paths through placed blocks for any cost of a link, as the baselines' routers need them.

The links are those of arXiv 2604.14993, section 2: from a server to any that hosts the block after its last.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from scheduler.core.chains.model import Placed, Server


@dataclass(frozen=True, slots=True)
class Hop:
    """`blocks` blocks (m_ij) are processed on `server` (its index)."""

    server: int
    blocks: int


Path = tuple[Hop, ...]
LinkCost = Callable[[Placed, int], int | None]  # of processing so many blocks on this server, in ns; None: no such link


def path_time_ns(servers: Sequence[Server], path: Path) -> int:
    """T of a path, equation (2)."""
    return sum(servers[hop.server].time_ns(hop.blocks) for hop in path)


def shortest_path(blocks: int, placed: Sequence[Placed], cost: LinkCost) -> Path | None:
    """The cheapest path from block 1 to block `blocks`; equal ones by their list of server indices. None: no path."""
    ordered = sorted(placed, key=lambda node: node.server)
    rest: dict[int, tuple[int, Path]] = {blocks: (0, ())}  # last block processed -> the cheapest way on
    for last in sorted({0, *(node.last for node in ordered)} - {blocks}, reverse=True):
        best: tuple[int, Path] | None = None
        for node in ordered:
            if not node.first <= last + 1 <= node.last or node.last not in rest:
                continue
            link = cost(node, node.last - last)
            if link is not None and (best is None or link + rest[node.last][0] < best[0]):
                length, tail = rest[node.last]
                best = (link + length, (Hop(node.server, node.last - last), *tail))
        if best is not None:
            rest[last] = best
    return rest[0][1] if 0 in rest else None
