"""The numbers that the paper prints, or that follow from its examples by hand."""

from __future__ import annotations

import pytest

from scheduler.core.chains.allocation import allocate
from scheduler.core.chains.bounds import bounds
from scheduler.core.chains.model import NS, Chain, Placed, total_rate
from scheduler.core.chains.placement import place
from scheduler.core.chains.planning import plan
from tests.chaining.examples import figure_1, figure_2, ns, two_chains


def test_figure_2_placement() -> None:
    """Two disjoint chains; together they stay below what the demand needs, so K(1) is infinite."""
    service, servers = figure_2()
    placement = place(service, servers, 1)
    assert placement.placed == (Placed(0, 1, 1), Placed(1, 2, 2), Placed(2, 1, 1), Placed(3, 2, 1), Placed(4, 3, 1))
    assert placement.disjoint_chains is None


def test_figure_2_chains() -> None:
    """T = 3 + 5, 10 and 12 epsilon; j2 spends two slots a job, j1, j4 and j5 are shared."""
    service, servers = figure_2(epsilon=0.001)
    assert allocate(service, servers, place(service, servers, 1).placed) == [
        Chain((0, 1), ns(3.005), 5),
        Chain((0, 3, 4), ns(3.010), 5),
        Chain((2, 3, 4), ns(3.012), 5),
    ]


@pytest.mark.parametrize("blocks", [2, 3, 4, 6])
def test_figure_1_small_c_makes_short_chains_and_large_c_long_ones(blocks: int) -> None:
    service, servers = figure_1(blocks, comm_s=1.0, block_s=0.5)
    short = plan(service, servers, 1)
    assert [chain.servers for chain in short.chains] == [(j,) for j in range(blocks)]
    assert {chain.time_ns for chain in short.chains} == {ns(1 + blocks * 0.5)}
    # At least the reserved rate c nu = L / (tc + L tp); GCA finds room for more.
    assert {chain.capacity for chain in short.chains} == {max(1, (blocks**2 + 1 - blocks) // blocks)}
    long = plan(service, servers, blocks**2)
    assert [chain.servers for chain in long.chains] == [tuple(range(blocks))]
    assert long.chains[0].time_ns == ns(blocks * 1.5)
    assert long.total_rate_rps == pytest.approx(blocks / 1.5)


def test_one_chain_is_an_m_m_c_queue_whose_bounds_meet() -> None:
    one = bounds([Chain((0,), NS, 1)], 0.5)
    three = bounds([Chain((0,), NS, 3)], 2.0)
    assert one is not None
    assert three is not None
    assert (one.lower_s, one.upper_s) == pytest.approx((2.0, 2.0))
    assert (three.lower_s, three.upper_s) == pytest.approx((13 / 9, 13 / 9))


@pytest.mark.parametrize(
    ("load", "lower", "upper"),
    [(0.3, 1.0445, 2.231), (0.6, 1.2725, 1.944), (0.8, 1.8083, 2.252), (0.95, 5.0543, 5.380)],
)
def test_bounds_of_two_chains(load: float, lower: float, upper: float) -> None:
    found = bounds(two_chains(), load * total_rate(two_chains()))
    assert found is not None
    assert (found.lower_s, found.upper_s) == pytest.approx((lower, upper), rel=5e-4)
