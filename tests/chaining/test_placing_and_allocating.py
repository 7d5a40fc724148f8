"""Ties, slots that sit on whole numbers, and what cannot be served."""

from __future__ import annotations

import pytest

from scheduler.core.chains.allocation import allocate
from scheduler.core.chains.bounds import bounds
from scheduler.core.chains.model import NS, Chain, Placed, Server, Service, total_rate, whole
from scheduler.core.chains.placement import place
from scheduler.core.chains.planning import plan
from tests.chaining.examples import ns


@pytest.mark.parametrize("slots", range(1, 200))
def test_a_ratio_that_is_a_whole_number_loses_no_slot(slots: int) -> None:
    """0.1 * n / 0.1, and memory that is exactly n blocks with their caches, for sizes that no double holds."""
    for size in (0.1, 0.11, 0.3, 1.32, 0.065):
        assert whole((size * slots) / size) == slots
        service = Service(1000, 1.32, size, 1.0, 0.7)
        assert service.hosted(Server("s", (1.32 + size) * slots, 1, 1), 1) == min(slots, 1000)
        assert service.slots(Server("s", 1.32 * 7 + size * slots, 1, 1), 7) == slots


def test_slots_that_doubles_would_lose() -> None:
    service = Service(70, 1.0, 0.1, 1.0, 0.7)
    assert (2.9 - 2.0) / 0.1 < 9  # the plain floor would be 8
    assert service.slots(Server("s", 2.9, 1, 1), 2) == 9
    assert 3.3 / (1.0 + 0.1) < 3
    assert service.hosted(Server("s", 3.3, 1, 1), 1) == 3
    assert service.slots(Server("s", 2.89, 1, 1), 2) == 8
    assert service.hosted(Server("s", 3.29, 1, 1), 1) == 2


def test_a_server_without_room_for_a_block_is_never_placed() -> None:
    service = Service(2, 1.0, 0.5, 10.0, 1.0)
    servers = [Server("small", 1.4, 1, 1), Server("a", 1.5, NS, NS), Server("b", 1.5, NS, NS)]
    assert [node.server for node in place(service, servers, 1).placed] == [1, 2]
    assert place(service, servers, 2).placed == ()


def test_equal_amortised_times_go_by_index_and_unequal_ones_are_compared_exactly() -> None:
    # 0.3 / 3 and 0.1 / 1: as doubles of seconds 0.3 / 3 is below 0.1, yet the two are equal.
    assert 0.3 / 3 < 0.1
    service = Service(3, 1.0, 1.0, 1e-3, 1.0)
    servers = [Server("one", 2, ns(0.1), 0), Server("three", 6, ns(0.3), 0)]
    assert [node.server for node in place(service, servers, 1).placed] == [0, 1]
    later = [Server("one", 2, ns(0.1) + 1, 0), Server("three", 6, ns(0.3) + 2, 0)]
    assert [node.server for node in place(service, later, 1).placed] == [1]


def test_placing_stops_where_the_demand_is_met_but_for_a_rounding_error() -> None:
    servers = [Server(f"s{index}", 2.0, NS * 10, 0) for index in range(5)]
    met = place(Service(1, 1.0, 1.0, 0.1 + 0.1 + 0.1 + 5e-13, 1.0), servers, 1)
    assert (len(met.placed), met.disjoint_chains) == (3, 3)
    more = place(Service(1, 1.0, 1.0, 0.3 + 5e-12, 1.0), servers, 1)
    assert (len(more.placed), more.disjoint_chains) == (4, 4)


def test_the_last_server_of_a_chain_is_shifted_back_and_keeps_all_its_blocks() -> None:
    service = Service(5, 1.0, 1.0, 1.0, 1.0)
    servers = [Server(name, 6.0, NS, NS) for name in "ab"]
    assert place(service, servers, 1).placed == (Placed(0, 1, 3), Placed(1, 3, 3))
    found = plan(service, servers, 1)
    # b serves two blocks after a: T = 2 tc + 5 tp; b has 3 slots, of which a job takes 2.
    assert found.chains == (Chain((0, 1), 7 * NS, 1),)


def test_equal_paths_take_the_smallest_list_of_servers() -> None:
    service = Service(2, 1.0, 1.0, 1.0, 1.0)
    same = [Server(f"s{index}", 3.0, NS, NS) for index in range(4)]
    placed = [Placed(3, 1, 1), Placed(0, 2, 1), Placed(2, 2, 1), Placed(1, 1, 1)]
    assert [chain.servers for chain in allocate(service, same, placed)] == [(1, 0), (3, 2)]
    # (0, 3) beats (1,) although it is longer: the first server decides.
    mixed = [Server("s0", 3.0, NS, 0), Server("s1", 5.0, 2 * NS, 0), Server("s2", 3.0, NS, 0)]
    chains = allocate(service, mixed, [Placed(1, 1, 2), Placed(2, 2, 1), Placed(0, 1, 1)])
    assert [chain.servers for chain in chains] == [(0, 2), (1,)]


def test_servers_that_cannot_hold_all_blocks_give_no_chain_and_no_bounds() -> None:
    found = plan(Service(5, 1.0, 1.0, 1.0, 1.0), [Server("a", 4.0, NS, NS)], 1)
    assert found.placement == (Placed(0, 1, 2),)
    assert (found.chains, found.total_rate_rps, found.bounds, found.disjoint_chains) == ((), 0.0, None, None)
    assert plan(Service(5, 1.0, 1.0, 1.0, 1.0), [], 1).placement == ()


def test_a_rate_at_the_total_rate_has_no_bounds_in_whatever_order_chains_are_summed() -> None:
    chains = [Chain((k,), 10 * NS, 1) for k in range(3)]
    assert sum(chain.rate_rps for chain in chains) > 0.3
    assert total_rate(chains) == 0.3
    assert bounds(chains, 0.3) is None
    assert bounds(chains, 0.2999) is not None


@pytest.mark.parametrize("rate", [1e-320, 1e-200, 1e-9])
def test_at_hardly_any_load_the_bounds_are_the_fastest_and_the_slowest_chain(rate: float) -> None:
    found = bounds([Chain((0,), NS, 3), Chain((1,), 4 * NS, 2)], rate)
    assert found is not None
    assert (found.lower_s, found.upper_s) == pytest.approx((1.0, 4.0))


def test_bounds_hold_where_weights_leave_the_range_of_doubles() -> None:
    many = [Chain((0,), NS, 3000), Chain((1,), 2 * NS, 3000)]
    found = bounds(many, 4000.0)
    assert found is not None
    # 3000 jobs on the fast chain serve 3000 a second, 2000 on the slow one the rest: N = 5000.
    assert found.lower_s == pytest.approx(5000 / 4000, rel=1e-3)
    # From below 3000 slow jobs serve 1500, 2500 fast ones the rest: N = 5500.
    assert found.upper_s == pytest.approx(5500 / 4000, rel=1e-3)
