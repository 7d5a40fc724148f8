"""ELSA (arXiv 2202.13481, Algorithm 2), computed by hand; times in milliseconds unless a name says otherwise."""

from __future__ import annotations

from typing import Any

import pytest

from tests.simulating.scenarios import rows, run, small

ELSA = {"name": "elsa"}


def sized(gpcs: list[int], ms: dict[int, float], *asked: tuple[float, float | None], **more: Any) -> dict[str, Any]:
    """One preloaded model on slices of these sizes, `ms` by size; (at, SLA) of each request, both in ms."""
    row = {str(k): {"1": v / 1e3} for k, v in ms.items()}
    return {
        "preloaded": True,
        "slices": [{"id": f"g{i}", "gpcs": k, "memory_gb": 5} for i, k in enumerate(gpcs)],
        "models": {"m": {"memory_gb": 1, "load_s": 1, "infer_s": {"table": row}}},
        "requests": [
            {"id": f"q{i}", "at_s": at / 1e3, "model": "m"} | ({"sla_s": sla / 1e3} if sla is not None else {})
            for i, (at, sla) in enumerate(asked, 1)
        ],
        "policy": ELSA,
        **more,
    }


def where(result: dict[str, Any]) -> list[str]:
    return [r["slice"] for r in result["requests"]]


def test_small_slices_first_while_the_sla_holds_then_the_soonest() -> None:
    """Two GPU(1) of 40 ms and a GPU(7) of 10 ms, seven equal queries at once, SLA 50 ms."""
    result = run(sized([1, 1, 7], {1: 40, 7: 10}, *[(0, 50)] * 7))
    # Slack 10 on each GPU(1); then 40, 30, 20 and 10 on the GPU(7); then 0 is not above 0, and 50 ms beats 80 ms.
    assert where(result) == ["g0", "g1", "g2", "g2", "g2", "g2", "g2"]
    assert [r["finish_s"] for r in result["requests"]] == [0.04, 0.04, 0.01, 0.02, 0.03, 0.04, 0.05]
    assert result["summary"]["sla_violation_ratio"] == 0.0  # 50 ms do not exceed 50 ms


def test_fifs_gives_a_large_batch_to_whatever_is_idle_and_elsa_waits_for_the_large_slice() -> None:
    """What the paper's Figures 5 and 10 are about, with numbers of our own: an idle small slice, a busy large one."""
    table = {"1": {"1": 0.010, "8": 0.080}, "7": {"1": 0.004, "8": 0.012}}
    doc = sized([1, 7], {1: 0, 7: 0})
    doc["models"]["m"]["infer_s"]["table"] = table
    doc["requests"] = [
        {"id": "A", "at_s": 0.0, "model": "m", "batch": 8, "sla_s": 0.030},
        {"id": "B", "at_s": 0.001, "model": "m", "batch": 8, "sla_s": 0.030},
        {"id": "C", "at_s": 0.002, "model": "m", "batch": 1, "sla_s": 0.030},
    ]
    elsa = run(doc)
    assert rows(elsa) == [("g1", 0, 0.012, True), ("g1", 0.012, 0.024, True), ("g0", 0.002, 0.012, True)]
    assert elsa["summary"]["sla_violation_ratio"] == 0.0
    fifs = run(doc, {"name": "fifs"})
    assert rows(fifs) == [("g0", 0, 0.080, True), ("g1", 0.001, 0.013, True), ("g1", 0.013, 0.017, True)]
    assert fifs["summary"]["sla_violation_ratio"] == pytest.approx(1 / 3)


def test_within_a_size_the_shorter_wait_then_the_lower_index() -> None:
    result = run(sized([2, 1, 1, 1], {1: 40, 2: 30}, (0, 200), (10, 200), (20, 200), (30, 200), (35, 200)))
    # At 30 the waits are 10, 20 and 30; at 35 they are 5 + 40, 15 and 25.
    assert where(result) == ["g1", "g2", "g3", "g1", "g2"]
    assert where(run(sized([1, 1, 1], {1: 40}, *[(0, 200)] * 4))) == ["g0", "g1", "g2", "g0"]


def test_without_an_sla_the_smallest_slice_of_the_shortest_wait() -> None:
    assert where(run(sized([7, 1, 1], {1: 400, 7: 10}, *[(0, None)] * 5))) == ["g1", "g2", "g1", "g2", "g1"]


def test_when_nothing_meets_the_sla_the_sum_then_fewer_gpcs_then_the_index_decides() -> None:
    assert where(run(sized([7, 2, 2, 1], {7: 30, 2: 30, 1: 31}, (0, 5), (0, 5), (0, 5), (0, 5), (0, 5)))) == [
        "g1", "g2", "g0", "g3", "g1",
    ]  # fmt: skip


def test_alpha_scales_the_whole_beta_the_requests_own_time() -> None:
    asked = [(0, 50), (0, 50)]
    # alpha 1.25: 50 - 1.25 * 40 = 0 on GPU(1), so the GPU(7); then it is 50 - 1.25 * 20.
    assert where(run(sized([1, 7], {1: 40, 7: 10}, *asked), ELSA | {"alpha": 1.25})) == ["g1", "g1"]
    # beta 0.5: 50 - 20 on GPU(1); then 50 - (40 + 20) there and 50 - 5 on the other.
    assert where(run(sized([1, 7], {1: 40, 7: 10}, *asked), ELSA | {"beta": 0.5})) == ["g0", "g1"]
    # 50 - 0.5 * (40 + 0.5 * 40) = 20 on GPU(1) for the second as well.
    assert where(run(sized([1, 7], {1: 40, 7: 10}, *asked), ELSA | {"alpha": 0.5, "beta": 0.5})) == ["g0", "g0"]


def test_slack_is_whole_nanoseconds() -> None:
    # 50 ms less alpha times 49.999999 ms are 1 ns less 0.005 ns, which is 1 ns; and 1 ns less 0.505 ns, which is none.
    for alpha, slice_ in ((1.0000000001, "g0"), (1.0000000101, "g1")):
        doc = sized([1, 7], {1: 49.999999, 7: 10}, (0, 50))
        assert where(run(doc, ELSA | {"alpha": alpha})) == [slice_]


def test_a_load_counts_once_in_the_walk_of_a_queue_and_never_while_the_model_is_there() -> None:
    models = {"a": (1, 10, 1), "b": (1, 10, 1)}
    # Two equal slices: which of them a request takes shows what the waits are.
    asked: list[tuple[Any, ...]] = [(0, "a"), (0, "a"), (0, "b"), (0, "b"), (0, "b"), (0, "a")]
    result = run(small([(1, 9), (1, 9)], models, *asked), ELSA)
    # Before each 0 and 0, 11 and 0, 11 and 11, 22 and 11, 22 and 22, 23 and 22: the second b finds the first's load.
    assert where(result) == ["g0", "g1", "g0", "g1", "g0", "g1"]
    assert rows(result) == [
        ("g0", 0, 11, False), ("g1", 0, 11, False), ("g0", 11, 22, False),
        ("g1", 11, 22, False), ("g0", 22, 23, True), ("g1", 22, 23, True),
    ]  # fmt: skip


def test_a_running_request_that_found_its_model_loaded_by_the_one_before_it_counts_no_load() -> None:
    models = {"a": (1, 10, 1), "b": (1, 10, 1)}
    # The second b is bound to g0 before the model is there, and starts at 22, when it is.
    # At 22.5 half a second of it is left, and no load: 0.5 + 1 on g0 against 1 + 10 on g1, with an SLA of 2.
    two = small([(1, 9), (2, 9)], models, (0, "a", 99), (1, "b", 99), (2, "b", 99), (22.5, "a", 2))
    assert rows(run(two, ELSA))[3] == ("g0", 23, 24, True)


def test_an_sla_that_rounds_to_nothing_is_an_sla() -> None:
    doc = sized([1, 7], {1: 40, 7: 10}, (0, 1e-8), (0, None))
    result = run(doc)
    assert where(result) == ["g1", "g0"]
    assert result["summary"]["sla_violation_ratio"] == 1.0


def test_the_requests_own_load_is_in_its_time_not_in_the_wait() -> None:
    models = {"a": (1, 10, 1), "b": (1, 3, 4)}
    # g0 holds a. SLA 5 for a at 20: slack 4 on g0, which holds it; on g1, first by nothing but its index, 5 - 11.
    doc = small([(1, 1), (1, 1)], models, (0, "a"), (0, "b"), (20, "b", 5), (20, "a", 5))
    assert where(run(doc, ELSA)) == ["g0", "g1", "g1", "g0"]


def test_what_is_hit_when_it_is_bound_may_miss_when_it_starts() -> None:
    models = {"a": (1, 5, 1), "b": (1, 5, 1)}
    # Room for one: b is bound behind a and evicts it; the a behind b was a hit by foresight, and loads again.
    result = run(small([(1, 1)], models, (0, "a"), (1, "b"), (2, "a"), (3, "a")), ELSA)
    assert rows(result) == [("g0", 0, 6, False), ("g0", 6, 12, False), ("g0", 12, 18, False), ("g0", 18, 19, True)]


def test_only_slices_that_the_model_fits_are_tried() -> None:
    models = {"big": (4, 1, 1), "small": (1, 1, 1)}
    result = run(small([(1, 2), (7, 4)], models, (0, "big", 9), (0, "small", 9), (0, "big")), ELSA)
    assert where(result) == ["g1", "g0", "g1"]
