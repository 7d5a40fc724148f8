"""Instances are packed whenever they can be, onto as few GPUs as can be, at places that exist."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_manager.core import geometry
from gpu_manager.core.packing import pack, packable
from tests.partitioning import naive

GPUS = geometry.gpu_types()
# Around what four GPUs hold, where yes and no are both common.
COUNTS = st.fixed_dictionaries(
    {1: st.integers(0, 28), 2: st.integers(0, 12), 3: st.integers(0, 8), 4: st.integers(0, 4), 7: st.integers(0, 3)}
)


def _tuple(counts: dict[int, int]) -> tuple[int, ...]:
    return tuple(counts.get(size, 0) for size in naive.SIZES)


@settings(max_examples=150, deadline=None)
@given(gpu=st.sampled_from(GPUS), counts=COUNTS, gpus=st.integers(1, 4))
def test_it_packs_exactly_what_some_choice_of_fillings_holds(gpu: str, counts: dict[int, int], gpus: int) -> None:
    layout = pack(gpu, counts, gpus)
    assert (layout is not None) == packable(gpu, counts, gpus) == naive.possible(_tuple(counts), gpus)
    if layout is None:
        return
    assert len(layout) == gpus
    assert Counter(one.gpcs for instances in layout for one in instances) == +Counter(counts)
    for instances in layout:
        assert geometry.fault(gpu, instances) is None
        assert [one.start for one in instances] == sorted(one.start for one in instances)
    used = sum(1 for instances in layout if instances)
    assert used == 0 or not naive.possible(_tuple(counts), used - 1)  # no fewer GPUs would do
    assert layout[used:] == ((),) * (gpus - used)
    assert pack(gpu, dict(reversed(counts.items())), gpus) == layout


@pytest.mark.parametrize(("gpu", "gpus"), [*((gpu, gpus) for gpu in GPUS for gpus in (1, 2)), (GPUS[0], 3)])
def test_on_few_gpus_every_count_is_answered_rightly(gpu: str, gpus: int) -> None:
    bounds = [range(7 * gpus // size + 2) for size in naive.SIZES]
    held = {
        (a, b, c, d, e)
        for a in bounds[0] for b in bounds[1] for c in bounds[2] for d in bounds[3] for e in bounds[4]
        if packable(gpu, dict(zip(naive.SIZES, (a, b, c, d, e), strict=True)), gpus)
    }  # fmt: skip
    reached = {(0,) * 5}
    for _ in range(gpus):
        reached = {tuple(map(sum, zip(one, two, strict=True))) for one in reached for two in naive.one_gpu()}
    assert held == reached


def test_the_two_published_configurations_need_four_and_six_gpus() -> None:
    mobilenet, bert = {1: 6, 2: 4, 3: 2, 4: 1}, {3: 2, 4: 2, 7: 4}
    for counts, gpus in ((mobilenet, 4), ({3: 8}, 4), (bert, 6), ({7: 6}, 6)):
        assert packable("A100-40GB", counts, gpus)
        assert not packable("A100-40GB", counts, gpus - 1)


def test_the_work_does_not_grow_with_the_gpus() -> None:
    counts = {1: 3_000_000, 2: 1_000_000, 3: 500_000, 4: 500_000}
    assert packable("H200-141GB", counts, 1_250_000)
    assert not packable("H200-141GB", {**counts, 4: 1_250_001}, 1_250_000)


def test_a_size_that_the_gpu_does_not_have_is_an_error() -> None:
    with pytest.raises(KeyError):
        pack("A100-40GB", {5: 1}, 1)
