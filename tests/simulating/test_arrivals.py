"""Requests that are drawn: the rate, the shares and the seed mean what they say."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Any

import pytest

from proto.types.errors import SlicewiseError
from simulator.requests import Asked
from simulator.scenario import scenario
from tests.simulating.scenarios import run, small

MODELS = {"a": (1.0, 0.0, 0.1), "b": (1.0, 0.0, 0.1), "c": (1.0, 0.0, 0.1)}


def drawn(scenario_seed: int = 1, /, **trace: Any) -> tuple[Asked, ...]:
    doc = small([(1, 3)], MODELS, seed=scenario_seed) | {"requests": {"trace": {"rate_rps": 10, **trace}}}
    return scenario(doc).requests


def test_a_poisson_stream_of_the_rate() -> None:
    requests = drawn(requests=5000)
    gaps = [b.at_ns - a.at_ns for a, b in pairwise(requests)]
    mean = sum(gaps) / len(gaps)
    assert mean == pytest.approx(1e8, rel=0.05)
    # An exponential's standard deviation is its mean, and e^-1 of it lies beyond.
    assert sum((gap - mean) ** 2 for gap in gaps) / len(gaps) == pytest.approx(mean**2, rel=0.1)
    assert sum(gap > mean for gap in gaps) / len(gaps) == pytest.approx(0.368, abs=0.03)
    assert [r.id for r in requests[:3]] == ["r1", "r2", "r3"]


def test_a_duration_bounds_it() -> None:
    requests = drawn(duration_s=100)
    assert len(requests) == pytest.approx(1000, rel=0.15)
    assert requests[-1].at_ns < 100e9
    assert requests == drawn(requests=5000)[: len(requests)]


def test_shares_of_models_and_batches() -> None:
    equal = Counter(r.model for r in drawn(requests=6000))
    assert [equal[m] for m in "abc"] == pytest.approx([2000] * 3, rel=0.1)
    zipf = Counter(r.model for r in drawn(requests=6000, models={"zipf": 1}))
    assert [zipf[m] for m in "abc"] == pytest.approx([3273, 1636, 1091], rel=0.1)
    named = Counter(r.model for r in drawn(requests=4000, models={"c": 3, "a": 1, "b": 0}))
    assert [named[m] for m in "abc"] == pytest.approx([1000, 0, 3000], rel=0.1)
    sizes = Counter(r.batch for r in drawn(requests=4000, batches={"8": 1, 2: 3}))
    assert [sizes[b] for b in (2, 8)] == pytest.approx([3000, 1000], rel=0.1)
    logs = Counter(r.batch for r in drawn(requests=5000, batches={"lognormal": {"median": 4, "sigma": 0.9, "max": 32}}))
    assert max(logs) <= 32
    assert sum(n for b, n in logs.items() if b <= 4) / 5000 == pytest.approx(0.557, abs=0.03)  # ln(4.5/4) / 0.9
    assert {r.batch for r in drawn(requests=10)} == {1}


def test_the_seed_decides_and_the_noise_has_its_own_stream() -> None:
    assert drawn(requests=20) == drawn(requests=20)
    assert drawn(requests=20) != drawn(2, requests=20)
    assert drawn(2, requests=20, seed=1) == drawn(requests=20)
    doc = small([(1, 3)], MODELS, noise_sigma=0.5) | {"requests": {"trace": {"rate_rps": 10, "requests": 20}}}
    listed = [
        {"id": r.id, "at_s": r.at_ns / 1e9, "model": r.model, "batch": r.batch} for r in scenario(doc).requests
    ]  # fmt: skip
    assert run(doc) == run(doc | {"requests": listed})


def test_an_sla_for_all() -> None:
    assert {r.sla_ns for r in drawn(requests=5, sla_s=0.5)} == {500_000_000}
    assert drawn(requests=0) == ()


@pytest.mark.parametrize(
    ("trace", "field"),
    [
        ({}, "trace.requests"), ({"requests": 1, "duration_s": 1}, "trace.requests"), ({"requests": -1}, "requests"),
        ({"requests": 10**8}, "trace.requests"), ({"duration_s": 1e9}, "trace.duration_s"),
        ({"requests": 1, "rate_rps": 0}, "rate_rps"), ({"requests": 1, "models": {"z": 1}}, "models.z"),
        ({"requests": 1, "models": {"a": 0}}, "models"), ({"requests": 1, "models": {"a": -1}}, "models.a"),
        ({"requests": 1, "models": {"zipf": -1}}, "models.zipf"), ({"requests": 1, "batches": {}}, "batches"),
        ({"requests": 1, "batches": {"0": 1}}, "batches"), ({"requests": 1, "batches": {"1": "x"}}, "batches.1"),
        ({"requests": 1, "batches": {"lognormal": {"median": 4, "sigma": 0, "max": 3}}}, "lognormal.sigma"),
        ({"requests": 1, "batches": {"lognormal": {"median": 4}}}, "lognormal.sigma"),
        ({"requests": 1, "sla_s": 0}, "sla_s"), ({"requests": 1, "seed": -1}, "trace.seed"),
        ({"requests": 1, "speed": 1}, "trace.speed"),
    ],
)  # fmt: skip
def test_bad_draws_are_named(trace: dict[str, Any], field: str) -> None:
    with pytest.raises(SlicewiseError) as refused:
        drawn(**trace)
    assert field in refused.value.message.split(": ")[0]


def test_the_papers_policies_in_the_papers_setting() -> None:
    """12 slices, 35 models of which they cannot hold all, 325 requests a minute for 6 minutes (arXiv 2303.05601).

    Loads and sizes are assumed, so only the order and the size of the steps count: the paper has LALB's mean latency at
    -79 % and O3's at -97 % of the load balancer's, misses at -65 % and -81 %.
    """
    models = {f"m{n}": (1.3 + 2.7 * (n * 17 % 35) / 34, 2.4 + 1.7 * (n * 17 % 35) / 34, 1.3) for n in range(35)}
    doc = small([(1, 8.0)] * 12, models, seed=3)
    doc["requests"] = {"trace": {"rate_rps": 325 / 60, "requests": 1950, "models": {"zipf": 0.5}}}
    lb = run(doc, {"name": "lb"})["summary"]
    in_order = run(doc, {"name": "lalb", "o3_limit": 0})["summary"]
    o3 = run(doc, {"name": "lalb"})["summary"]
    assert o3["mean_latency_s"] < 0.1 * lb["mean_latency_s"]
    assert o3["mean_latency_s"] < 0.5 * in_order["mean_latency_s"] < 0.5 * 0.5 * lb["mean_latency_s"]
    assert o3["miss_ratio"] < in_order["miss_ratio"] < 0.6 * lb["miss_ratio"]
    assert o3["latency_variance_s2"] < 0.1 * in_order["latency_variance_s2"]
    assert lb["false_miss_ratio"] > o3["false_miss_ratio"]
    assert lb["mean_duplicates_hottest"] > o3["mean_duplicates_hottest"]
    assert o3["utilisation"] > lb["utilisation"]
