"""The simulation is exact: it meets the Markov chain's mean, the bounds, and hand-made schedules to the nanosecond."""

from __future__ import annotations

import statistics

import pytest

from scheduler.core.chains.bounds import bounds
from scheduler.core.chains.dispatching import JoinFastestFreeChain
from scheduler.core.chains.model import NS, Chain, total_rate
from simulator.chains.policies import make_policy
from simulator.chains.queueing import Job, Served, poisson_jobs, responses_ns, simulate_chains
from simulator.chains.summary import summary
from tests.chaining.examples import ns, two_chains
from tests.chaining.oracle import exact_mean_response_s

_BATCHES = 40
_T_39 = 3.56  # Student's t with 39 degrees of freedom, 99.9 % in the middle: the seed is fixed, so it holds for good


@pytest.mark.parametrize(("load", "mean"), [(0.3, 1.1734), (0.6, 1.5009), (0.8, 2.0108), (0.95, 5.2221)])
def test_the_oracle_is_the_published_one(load: float, mean: float) -> None:
    assert exact_mean_response_s((1.0, 0.4), (3, 4), load) == pytest.approx(mean, abs=5e-5)


@pytest.mark.parametrize("load", [0.3, 0.6, 0.8])
def test_jffc_meets_the_exact_mean_and_its_bounds(load: float) -> None:
    chains = two_chains()
    rate = load * total_rate(chains)
    served = simulate_chains(chains, JoinFastestFreeChain(chains), poisson_jobs(rate, 80_000, seed=7)[0])
    responses = [time / NS for time in responses_ns(served)]
    size = len(responses) // _BATCHES
    means = [statistics.fmean(responses[at : at + size]) for at in range(0, len(responses), size)]
    half = _T_39 * statistics.stdev(means) / _BATCHES**0.5
    assert half < 0.07 * statistics.fmean(means)
    assert statistics.fmean(means) == pytest.approx(exact_mean_response_s((1.0, 0.4), (3, 4), load), abs=half)
    limits = bounds(chains, rate)
    assert limits is not None
    assert limits.lower_s < statistics.fmean(means) < limits.upper_s


def test_completions_come_before_arrivals_and_the_queue_is_first_come_first_served() -> None:
    chains = [Chain((0,), NS, 1), Chain((1,), 2 * NS, 1)]
    jobs = [Job(0, 1.0), Job(0, 1.0), Job(1, 1.0), Job(2, 0.5), Job(NS, 1.0), Job(2 * NS + NS // 2, 1.0)]
    assert simulate_chains(chains, JoinFastestFreeChain(chains), jobs) == [
        Served(0, 0, NS, 0),
        Served(0, 0, 2 * NS, 1),
        Served(1, NS, 2 * NS, 0),  # the head goes where a slot is freed
        Served(2, 2 * NS, ns(2.5), 0),  # chain 0 before chain 1 at one instant
        Served(NS, 2 * NS, 4 * NS, 1),
        Served(ns(2.5), ns(2.5), ns(3.5), 0),  # the slot is free in the instant of the arrival
    ]


def test_one_seed_gives_one_stream_of_jobs_for_every_policy() -> None:
    first, second = poisson_jobs(0.5, 1000, seed=3)[0], poisson_jobs(0.5, 1000, seed=3)[0]
    assert first == second
    assert first != poisson_jobs(0.5, 1000, seed=4)[0]
    # Another seed, other rates: gaps scale, sizes stay.
    assert [job.size for job in poisson_jobs(5.0, 1000, seed=3)[0]] == [job.size for job in first]


@pytest.mark.parametrize("name", ["jffc", "jsq", "jiq", "sed", "sa-jsq"])
def test_every_policy_serves_every_job_once_within_capacities(name: str) -> None:
    chains = two_chains()
    jobs, random = poisson_jobs(0.9 * total_rate(chains), 3000, seed=5)
    served = simulate_chains(chains, make_policy(name, chains, random), jobs)
    changes: list[tuple[int, int, int]] = []  # ns, +1 or -1 (finishes first), chain
    for job, record in zip(jobs, served, strict=True):
        assert record.at_ns == job.at_ns <= record.start_ns
        assert record.finish_ns - record.start_ns == round(job.size * chains[record.chain].time_ns)
        changes += [(record.start_ns, 1, record.chain), (record.finish_ns, -1, record.chain)]
    running = [0, 0]
    for _, change, chain in sorted(changes):
        running[chain] += change
        assert 0 <= running[chain] <= chains[chain].capacity


@pytest.mark.parametrize(
    ("name", "means"),
    [("sed", {0.3: 1.11, 0.6: 1.65}), ("jsq", {0.6: 1.63}), ("jiq", {0.6: 1.68}), ("sa-jsq", {0.6: 1.58})],
)
def test_other_policies_come_near_known_means(name: str, means: dict[float, float]) -> None:
    chains = two_chains()
    for load, mean in means.items():
        jobs, random = poisson_jobs(load * total_rate(chains), 60_000, seed=11)
        found = summary(simulate_chains(chains, make_policy(name, chains, random), jobs))["mean_response_s"]
        assert found == pytest.approx(mean, rel=0.05)


def test_percentiles_are_nearest_rank() -> None:
    served = [Served(0, 0, ns(index), 0) for index in range(1, 101)]
    assert summary(served) == {
        "mean_response_s": 50.5,
        "mean_wait_s": 0.0,
        "p50_response_s": 50.0,
        "p95_response_s": 95.0,
        "p99_response_s": 99.0,
    }
    assert set(summary([]).values()) == {None}
