"""Theorem 3.5: whatever the placement, GCA's chains lose nothing for a policy that takes the fastest path.

At any moment the fastest path through the slots that are free now is as fast as the fastest chain of GCA that has
a free slot, and there is none if all are full. Brute force over all paths, on small placements of any kind.
"""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.core.chains.allocation import allocate
from scheduler.core.chains.model import Placed, Server, Service

_BLOCKS = 4


@st.composite
def _cases(draw: st.DrawFn) -> tuple[list[Server], list[Placed]]:
    servers, placed = [], []
    for index in range(draw(st.integers(1, 6))):
        first = draw(st.integers(1, _BLOCKS))
        blocks = draw(st.integers(1, _BLOCKS - first + 1))
        slots = draw(st.integers(0, 7))
        servers.append(Server(f"s{index}", blocks + slots, draw(st.integers(0, 4)), draw(st.integers(1, 4))))
        placed.append(Placed(index, first, blocks))
    return servers, draw(st.permutations(placed))


@settings(max_examples=150, deadline=None)
@given(_cases(), st.data())
def test_the_fastest_free_chain_is_the_fastest_free_path(
    case: tuple[list[Server], list[Placed]], data: st.DataObject
) -> None:
    servers, placed = case
    service = Service(_BLOCKS, 1.0, 1.0, 1.0, 1.0)
    chains = allocate(service, servers, placed)
    at = {node.server: node for node in placed}
    running = [data.draw(st.integers(0, chain.capacity), label="running") for chain in chains]
    left = {node.server: int(servers[node.server].memory_gb) - node.blocks for node in placed}
    for chain, jobs in zip(chains, running, strict=True):
        end = 0
        for j in chain.servers:
            left[j] -= jobs * (at[j].last - end)
            end = at[j].last
        assert end == _BLOCKS
    assert min(left.values()) >= 0  # equation (3) holds whatever runs
    fastest = min(_times(servers, placed, left, 0), default=None)
    free = [chain.time_ns for chain, jobs in zip(chains, running, strict=True) if jobs < chain.capacity]
    assert fastest == min(free, default=None)


def _times(servers: list[Server], placed: list[Placed], left: dict[int, int], end: int) -> list[int]:
    """The time of every path from after block `end` for which there is room."""
    if end == _BLOCKS:
        return [0]
    return [
        servers[node.server].comm_ns + servers[node.server].block_ns * (node.last - end) + rest
        for node in placed
        if node.first <= end + 1 <= node.last and left[node.server] >= node.last - end
        for rest in _times(servers, placed, left, node.last)
    ]
