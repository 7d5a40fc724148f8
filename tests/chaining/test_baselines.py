"""What the chains are compared with: PETALS, BPRR, whole models, random groups, and the best division of caches."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.core.chains.model import NS, Chain, Placed, Server, Service
from scheduler.core.chains.placement import place
from scheduler.core.chains.planning import plan
from simulator.chains.bprr import BprrRouter, bprr_placement, design_concurrency, most_concurrent
from simulator.chains.job_servers import greedy_job_servers, least_job_servers, optimal_job_servers
from simulator.chains.paths import Hop, shortest_path
from simulator.chains.petals import PetalsRouter, petals_placement
from simulator.chains.queueing import Job, poisson_jobs
from simulator.chains.random_placement import chains_in_order
from simulator.chains.sessions import Router, Slots, simulate_sessions
from simulator.chains.whole_models import whole_model_chains
from tests.chaining.examples import ns


def _paper_servers() -> tuple[Service, list[Server]]:
    servers = [Server(f"s{j}", 40 if j < 4 else 20, ns(0.9), ns(0.109 if j < 4 else 0.175)) for j in range(20)]
    return Service(70, 1.32, 0.11, 0.2, 0.7), servers


def _small(memory_gb: float = 8.0) -> tuple[Service, list[Server]]:
    """Two blocks, three servers of one block each (with 8 GB: 4 slots of 1 GB beside it, two jobs by attention)."""
    return Service(2, 4.0, 1.0, 1.0, 0.7), [Server(f"s{j}", memory_gb, NS, NS) for j in range(3)]


def test_petals_servers_take_the_blocks_that_are_served_worst() -> None:
    service, servers = _small()
    assert petals_placement(service, servers, [2, 0, 1]) == [Placed(2, 1, 1), Placed(0, 2, 1), Placed(1, 1, 1)]
    faster = [servers[0], Server("fast", 8.0, NS, NS // 2), servers[2]]
    # The second block is served by the slower one, so the third server goes there.
    assert petals_placement(service, faster, [1, 0, 2]) == [Placed(1, 1, 1), Placed(0, 2, 1), Placed(2, 2, 1)]
    assert petals_placement(service, servers, [0], reserved_gb=3.0) == []


def test_a_petals_job_without_cache_tries_again_after_1_2_4_seconds() -> None:
    service, servers = Service(1, 4.0, 1.0, 1.0, 0.7), [Server("s0", 5.0, NS, 0)]
    slots = Slots(service, servers, [Placed(0, 1, 1)])
    served = simulate_sessions(slots, PetalsRouter(slots), [Job(0, 4.5), Job(ns(0.2), 1.0), Job(ns(4.6), 1.0)])
    # Job 1 asks at 0.2, 1.2, 3.2 and 7.2 s; job 2 comes when the slot is free and overtakes it.
    assert [job.start_ns for job in served] == [0, ns(7.2), ns(4.6)]


def test_petals_avoids_a_server_whose_cache_is_short() -> None:
    service = Service(1, 4.0, 1.0, 1.0, 0.7)
    servers = [Server("near", 5.0, NS, 0), Server("far", 5.0, 3 * NS, 0)]
    slots = Slots(service, servers, [Placed(0, 1, 1), Placed(1, 1, 1)])
    served = simulate_sessions(slots, PetalsRouter(slots), [Job(0, 1.0), Job(1, 1.0), Job(2, 1.0)])
    assert [job.finish_ns - job.start_ns for job in served] == [NS, 3 * NS, NS]
    assert served[2].start_ns == NS + 2  # both full: back after a second


def test_cg_bp_places_all_blocks_for_the_promised_concurrency() -> None:
    service, servers = _paper_servers()
    most = most_concurrent(service, servers)
    assert most == int((4 * 40 + 16 * 20 - 1.32 * 90) / (0.11 * 90))
    for concurrent in (1, design_concurrency(service, servers), most):
        placed = bprr_placement(service, servers, concurrent)
        assert {block for node in placed for block in range(node.first, node.last + 1)} == set(range(1, 71))
        assert [node.blocks for node in placed] == [service.hosted(servers[node.server], concurrent) for node in placed]


def test_ws_rr_nobody_waits_while_no_more_jobs_than_designed_for_are_there() -> None:
    service, servers = _paper_servers()
    concurrent = 3
    slots = Slots(service, servers, bprr_placement(service, servers, concurrent))
    served = simulate_sessions(slots, BprrRouter(slots), [Job(n, 1.0) for n in range(concurrent)])
    assert all(job.start_ns == job.at_ns for job in served)


def test_ws_rr_waits_for_the_near_server_if_that_ends_sooner() -> None:
    service = Service(1, 4.0, 1.0, 1.0, 0.7)
    servers = [Server("near", 5.0, NS, 0), Server("far", 5.0, 3 * NS, 0)]
    slots = Slots(service, servers, [Placed(0, 1, 1), Placed(1, 1, 1)])
    served = simulate_sessions(slots, BprrRouter(slots), [Job(0, 1.0), Job(1, 1.0), Job(2, 1.0), Job(3, 1.0)])
    # 1 + 1 s beats 3 s; the third job expects 2 + 1 s, 2 ns less than 3 s from now; the fourth 3 + 1 s and goes far.
    assert [(job.start_ns, job.finish_ns) for job in served] == [
        (0, NS),
        (NS, 2 * NS),
        (2 * NS, 3 * NS),
        (3, 3 * NS + 3),
    ]


@pytest.mark.parametrize("router", [PetalsRouter, BprrRouter])
def test_sessions_never_hold_more_slots_than_there_are(router: type[Router]) -> None:
    service, servers = _paper_servers()
    placed = bprr_placement(service, servers, 4)
    slots = Slots(service, servers, placed)
    lowest = dict(slots.free)

    class Watched(Slots):
        def take(self, path: tuple[Hop, ...], sign: int = 1) -> None:
            super().take(path, sign)
            for server, free in self.free.items():
                lowest[server] = min(lowest[server], free)

    watched = Watched(service, servers, placed)
    served = simulate_sessions(watched, router(watched), poisson_jobs(0.5, 300, seed=1)[0])  # type: ignore[call-arg]
    assert len(served) == 300
    assert min(lowest.values()) >= 0
    assert any(free < watched.total[server] for server, free in lowest.items())
    assert watched.free == watched.total
    assert any(job.start_ns > job.at_ns for job in served)


@pytest.mark.parametrize("router", [PetalsRouter, BprrRouter])
def test_blocks_that_nobody_hosts_are_told(router: type[Router]) -> None:
    service, servers = _small()
    with pytest.raises(ValueError, match="no path"):
        router(Slots(service, servers, [Placed(0, 1, 1)]))  # type: ignore[call-arg]


def test_whole_models_are_chains_of_one_server() -> None:
    service = Service(2, 4.0, 1.0, 1.0, 0.7)
    servers = [Server("slow", 12.0, 2 * NS, NS), Server("fast", 13.9, NS, NS), Server("small", 9.9, NS, NS)]
    assert whole_model_chains(service, servers) == [Chain((1,), 3 * NS, 2), Chain((0,), 4 * NS, 2)]


def test_random_groups_never_beat_gbp_cr_where_memory_is_equal() -> None:
    """Theorem 3.4 on the objective of figure 3."""
    random = np.random.default_rng(3)
    service = Service(5, 1.0, 1.0, 1.0, 1.0)
    servers = [Server(f"s{j}", 6.0, int(random.integers(1, NS)), int(random.integers(1, NS))) for j in range(12)]
    best = place(service, servers, 2).disjoint_chains
    assert best is not None
    counts = [chains_in_order(service, servers, 2, random.permutation(12).tolist()) for _ in range(100)]
    assert all(count is None or count >= best for count in counts)
    assert any(count != best for count in counts)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([0.1, 0.5, 1.0, 2.0]))
def test_the_integer_program_finds_the_fewest_slots(seed: int, rate_rps: float) -> None:
    """Against brute force over all capacities up to GCA's and the rest that shared slots allow."""
    random = np.random.default_rng(seed)
    service = Service(3, 1.0, 0.5, rate_rps, 0.7)
    servers = [
        Server(f"s{j}", float(random.integers(3, 7)) / 2, int(random.integers(1, NS)), int(random.integers(1, NS)))
        for j in range(5)
    ]
    made = plan(service, servers, 1)
    found = optimal_job_servers(service, servers, made.placement, made.chains)
    best = _by_hand(service, servers, made.placement, made.chains)
    assert (found is None) == (best is None)
    if found is not None:
        assert sum(found) == best
        assert least_job_servers(service, made.chains) <= best
    greedy = greedy_job_servers(service, made.chains)
    if greedy is not None:
        assert best is not None
        assert best <= greedy


def _by_hand(
    service: Service, servers: list[Server], placed: tuple[Placed, ...], chains: tuple[Chain, ...]
) -> int | None:
    last = {node.server: node.last for node in placed}
    slots = {node.server: service.slots(servers[node.server], node.blocks) for node in placed}
    uses = []
    for chain in chains:
        ends = [0, *(last[j] for j in chain.servers)]
        uses.append({j: after - before for j, before, after in zip(chain.servers, ends, ends[1:], strict=False)})
    limits = [min(slots[j] // blocks for j, blocks in use.items()) for use in uses]
    best = None
    for counts in product(*(range(limit + 1) for limit in limits)):
        rate = sum(count * chain.rate_rps for count, chain in zip(counts, chains, strict=True))
        held = {j: sum(count * use.get(j, 0) for count, use in zip(counts, uses, strict=True)) for j in slots}
        if rate >= service.needed_rate(1) * (1 - 1e-9) and all(held[j] <= slots[j] for j in slots):
            best = sum(counts) if best is None else min(best, sum(counts))
    return best


def test_shortest_paths_take_the_smallest_list_of_servers() -> None:
    placed = [Placed(2, 2, 1), Placed(1, 1, 1), Placed(0, 1, 2), Placed(3, 2, 1)]
    assert shortest_path(2, placed, lambda node, m: m) == (Hop(0, 2),)
    assert shortest_path(2, placed, lambda node, m: None if node.server == 0 else m) == (Hop(1, 1), Hop(2, 1))
    assert shortest_path(3, placed, lambda node, m: m) is None
