"""The LALB paper's setting as built for its figures: the recipe's numbers, fixed by a seed, and the policies' order."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from benchmarks.reproduce import sources
from benchmarks.reproduce.recipe import busiest, paper_scenario, rescaled, zipf
from simulator.engine import simulate
from simulator.report import summary
from simulator.scenario import policy_of, scenario

MODELS = {
    f"m{n}": {
        "memory_gb": 1.5 + 0.08 * (n * 17 % 37),
        "load_s": 2.4 + 0.04 * (n * 17 % 37),
        "infer_s": {"fixed": 1.3, "per_item": 0.0},
    }
    for n in range(37)
}
GPUS = [{"id": f"gpu{n}", "gpcs": 7, "memory_gb": 8.0} for n in range(12)]
COUNTS = [[n % 5, 100 // n, 200 // n, 7 * n % 4] for n in range(1, 41)]


def by_minute(doc: dict[str, Any]) -> list[int]:
    minutes = Counter(int(r["at_s"] // 60) for r in doc["requests"])
    return [minutes[m] for m in sorted(minutes)]


def test_whole_numbers_in_proportion() -> None:
    assert rescaled([1, 1, 1], 10) == [4, 3, 3]
    assert rescaled([2, 1, 0], 10) == [7, 3, 0]
    assert rescaled([0.5, 0.25, 0.25], 4) == [2, 1, 1]
    assert rescaled([0, 0], 5) == [0, 0]
    assert sum(rescaled([3**-0.5, 7, 1e-9], 325)) == 325


def test_the_busiest_functions_of_the_window_in_their_order() -> None:
    counts = [[9, 0, 1], [0, 2, 3], [0, 0, 0], [0, 4, 1], [9, 9, 9]]
    assert busiest(counts, 2, 2, 3) == [[9, 9], [2, 3], [4, 1]]
    with pytest.raises(ValueError, match="first_minute 2: 4 functions"):
        busiest(counts, 2, 2, 5)


@pytest.mark.parametrize("working_set", [15, 25, 35])
def test_a_minute_has_325_requests_in_the_shares_of_that_minute(working_set: int) -> None:
    cut = busiest(COUNTS, 2, 2, working_set)
    doc = paper_scenario(cut, MODELS, GPUS, 325, seed=4)
    assert by_minute(doc) == [325, 325]
    assert len(doc["models"]) == working_set
    asked = [Counter(r["model"] for r in doc["requests"] if r["at_s"] // 60 == minute) for minute in (0, 1)]
    for minute, counted in enumerate(asked):
        column = sorted((row[minute] * 325 / sum(row[minute] for row in cut) for row in cut), reverse=True)
        got = sorted((counted[name] for name in doc["models"]), reverse=True)
        assert all(abs(a - b) < 1 for a, b in zip(got, column, strict=True))


def test_counts_as_they_are() -> None:
    doc = paper_scenario([[3, 0], [1, 4]], MODELS, GPUS, None, seed=0)
    first, second = doc["models"]
    asked = Counter((r["model"], r["at_s"] // 60) for r in doc["requests"])
    assert asked == {(first, 0): 3, (second, 0): 1, (second, 1): 4}


def test_a_seed_decides_all_and_another_changes_models_and_arrivals() -> None:
    weights = zipf(0.5, 25, 2)
    one, other = (paper_scenario(weights, MODELS, GPUS, 325, seed) for seed in (1, 2))
    assert one == paper_scenario(weights, MODELS, GPUS, 325, 1)
    assert list(one["models"]) != list(other["models"])
    assert one["requests"][0]["at_s"] != other["requests"][0]["at_s"]
    asked = Counter(r["model"] for r in one["requests"])
    hottest, second = (asked[name] for name in list(one["models"])[:2])
    assert hottest / second == pytest.approx(2**0.5, rel=0.05)


@pytest.mark.skipif(not sources.DATA.is_dir(), reason="the public data is not beside the checkout")
def test_the_real_sample_gives_the_recipes_numbers() -> None:
    given = sources.figure("lalb-working-sets")
    counts = sources.invocations(sources.data(given["popularity"]["trace"]))
    assert (len(counts), {len(row) for row in counts}) == (200, {1440})
    models = sources.substitute_models(sources.data(given["models"]))
    (first,) = given["popularity"]["first_minutes"]
    for working_set in given["working_sets"]:
        doc = paper_scenario(busiest(counts, first, 6, working_set), models, GPUS, given["per_minute"], 0)
        assert by_minute(doc) == [325] * 6
        assert len({r["model"] for r in doc["requests"]}) == working_set
    assert sum(map(sum, busiest(counts, 601, 6, 15))) / sum(sum(row[600:606]) for row in counts) > 0.8


def test_o3_is_not_behind_lalb_and_both_are_far_ahead_of_lb() -> None:
    made = scenario(paper_scenario(zipf(0.5, 35, 3), MODELS, GPUS, 325, 0))
    lb, lalb, o3 = (
        summary(simulate(made, policy_of(wish)))
        for wish in ({"name": "lb"}, {"name": "lalb", "o3_limit": 0}, {"name": "lalb", "o3_limit": 25})
    )
    assert o3["mean_latency_s"] <= lalb["mean_latency_s"] < 0.5 * lb["mean_latency_s"]
    assert o3["miss_ratio"] <= lalb["miss_ratio"] < lb["miss_ratio"]
    assert o3["latency_variance_s2"] <= lalb["latency_variance_s2"] < lb["latency_variance_s2"]
