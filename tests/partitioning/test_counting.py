"""Real-valued counts become whole ones by three steps."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from gpu_manager.core.counting import Demand, counts, real_counts
from gpu_manager.core.packing import packable
from proto.types.errors import SlicewiseError


def _counts(ratios: Mapping[int, float], budget: int, gpus: int, shares: Mapping[int, float] | None = None):
    demands = [Demand(gpcs, ratio, (shares or {}).get(gpcs, 0.5)) for gpcs, ratio in ratios.items()]
    return counts(demands, budget, lambda wanted: packable("A100-40GB", wanted, gpus))


def test_whole_counts_that_fit_stay() -> None:
    assert _counts({1: 6, 2: 4, 3: 2, 4: 1}, 24, gpus=4) == {1: 6, 2: 4, 3: 2, 4: 1}
    assert _counts({3: 2, 4: 2, 7: 4}, 42, gpus=6) == {3: 2, 4: 2, 7: 4}


@pytest.mark.parametrize("unit", [1, 0.1])
def test_step_1_takes_the_smaller_of_two_sizes_that_are_equally_short_whatever_doubles_say(unit: float) -> None:
    exact = real_counts([Demand(4, 3 * unit, 0.5), Demand(7, 2 * unit, 0.5)], 26)
    assert (list(exact.values()) == [3, 2]) == (unit == 1)  # in tenths, one count comes out below 3 or 2
    # Five GPUs would be needed. Both are exact, so a 4g goes, and nothing fits what it leaves.
    assert _counts({4: 3 * unit, 7: 2 * unit}, 26, gpus=4) == {4: 2, 7: 2}


def test_step_1_takes_from_the_size_that_is_least_short() -> None:
    # n* = 9.33, but four GPUs hold eight; nothing else may use what is left.
    assert _counts({3: 1}, 28, gpus=4) == {3: 8}
    # n* = {1: 2, 3: 4}: the four fill both GPUs. Both are exact, so a 1g goes first; it is then one short and the 3g
    # not, so a 3g goes. In its half there is room for both 1g, and step 2 fills the half.
    assert _counts({1: 2, 3: 4}, 14, gpus=2) == {1: 4, 3: 3}


def test_step_2_gives_to_the_size_that_is_shortest_of_those_that_fit() -> None:
    # n* = 2.33 each; one GPC is left, which only a 1g can use.
    assert _counts({1: 1, 2: 1}, 7, gpus=1) == {1: 3, 2: 2}
    # n* = 2.67 each; two GPCs are left and both would fit: the larger.
    assert _counts({1: 1, 2: 1}, 8, gpus=2) == {1: 2, 2: 3}
    # n* = {1: 3.8, 2: 2.1}: the shorter one is the smaller.
    assert _counts({1: 3.8, 2: 2.1}, 8, gpus=2) == {1: 4, 2: 2}


def test_step_2_gives_nothing_to_a_size_without_batches() -> None:
    assert _counts({1: 0, 3: 1}, 8, gpus=2) == {1: 0, 3: 2}


@pytest.mark.parametrize(
    ("share", "expected"),
    [(0.5, {1: 7, 7: 1}), (0.01, {1: 7, 7: 1}), (0.01 - 5e-10, {1: 7, 7: 1}), (0.0099, {1: 14, 7: 0})],
)
def test_step_3_keeps_one_slice_for_the_largest_batches_unless_they_are_rare(
    share: float, expected: dict[int, int]
) -> None:
    assert _counts({1: 1, 7: 0.01}, 14, gpus=2, shares={1: 1 - share, 7: share}) == expected


def test_step_3_scales_the_others_to_what_is_left_and_leaves_its_slice_alone() -> None:
    # Without it {1: 6.9, 2: 6.9, 7: 0.04} of 21; then 14 GPCs are shared by {1: 4.67, 2: 4.67}: 4 each and, of two
    # equally short, one more of the larger. The slice of 7 takes a GPU.
    assert _counts({1: 1, 2: 1, 7: 0.006}, 21, gpus=3, shares={7: 0.05}) == {1: 4, 2: 5, 7: 1}


def test_step_3_needs_a_budget_that_holds_the_slice() -> None:
    assert _counts({1: 1, 7: 0.01}, 6, gpus=1) == {1: 6, 7: 0}
    assert _counts({7: 1}, 6, gpus=1) == {7: 0}
    assert _counts({1: 1, 7: 0.01}, 7, gpus=1) == {1: 0, 7: 1}


def test_step_3_looks_at_the_largest_size_that_has_batches() -> None:
    assert _counts({1: 1, 4: 0.01, 7: 0}, 14, gpus=2, shares={4: 0.02, 7: 0}) == {1: 10, 4: 1, 7: 0}


@pytest.mark.parametrize("ratio", [0.0, 1e-320, float("inf")])
def test_ratios_that_are_no_numbers_are_refused(ratio: float) -> None:
    with pytest.raises(SlicewiseError, match="throughput_rps") as caught:
        _counts({1: ratio}, 7, gpus=1)
    assert caught.value.code == "bad_request"
