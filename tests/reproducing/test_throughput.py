"""Latency-bounded throughput: what it finds is the bound, and ELSA's on several sizes is above FIFS's."""

from __future__ import annotations

import pytest

from benchmarks.reproduce.throughput import Queries, Server, bounded_rps, random_mix, tail_s
from gpu_manager.core.curves import Point
from gpu_manager.core.packing import packable

# The shape of a small model on an A100: one GPC does for small batches, large ones are four times slower there.
TIMES = {
    gpcs: [Point(1, 0.005), Point(4, 0.005 + 0.002 / gpcs), Point(32, 0.005 + 0.035 / gpcs)] for gpcs in (1, 2, 3, 7)
}
QUERIES = Queries(count=1000, median=4, sigma=0.9, largest=32, sla_s=0.016, seed=3)


def test_the_capacity_is_that_of_slices_that_never_wait() -> None:
    one = Queries(count=1, median=1, sigma=0.01, largest=1, sla_s=1, seed=0)
    assert Server((1, 7), "fifs").capacity_rps(TIMES, one) == pytest.approx(400)
    # Batches of 2 and 3 lie between those of 1 and 4.
    assert Queries(1, 2, 1e-3, 4, 1, 0).mean_s(TIMES[1]) == pytest.approx(0.005 + 0.002 / 3)


def test_the_rate_found_meets_the_target_and_a_higher_one_does_not() -> None:
    server, steps = Server((3, 3, 3), "fifs"), 5
    rate = bounded_rps(server, TIMES, QUERIES, 95, steps)
    step = server.capacity_rps(TIMES, QUERIES) / 2**steps
    assert tail_s(server.run(TIMES, QUERIES, rate), 95) <= QUERIES.sla_s
    assert tail_s(server.run(TIMES, QUERIES, rate + 2 * step), 95) > QUERIES.sla_s


def test_a_target_that_no_rate_meets() -> None:
    late = Queries(count=300, median=20, sigma=0.5, largest=32, sla_s=0.01, seed=3)
    assert bounded_rps(Server((1, 1), "fifs"), TIMES, late, 95, 3) == 0.0


def test_on_slices_of_several_sizes_elsa_takes_more_within_the_target_than_fifs() -> None:
    mix = (1, 1, 2, 2, 3, 7)
    elsa = bounded_rps(Server(mix, "elsa"), TIMES, QUERIES, 95, 5)
    for order in (mix, mix[::-1]):
        assert bounded_rps(Server(order, "fifs"), TIMES, QUERIES, 95, 5) < 0.9 * elsa


def test_a_random_mix_uses_the_budget_on_real_gpus_and_follows_its_seed() -> None:
    mixes = [random_mix("A100-80GB", 4, 24, (1, 2, 3, 4, 7), seed) for seed in range(5)]
    assert mixes == [random_mix("A100-80GB", 4, 24, (1, 2, 3, 4, 7), seed) for seed in range(5)]
    assert len({tuple(sorted(mix.items())) for mix in mixes}) > 1
    for mix in mixes:
        used = sum(size * count for size, count in mix.items())
        assert used <= 24
        assert packable("A100-80GB", mix, 4)
        assert used == 24 or not packable("A100-80GB", {**mix, 1: mix[1] + 1}, 4)
