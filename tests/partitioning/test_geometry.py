"""Every layout that a GPU takes is known, and no other."""

from __future__ import annotations

import itertools

import pytest

from gpu_manager.core import geometry
from gpu_manager.core.mig_profiles import PROFILES
from proto.types.partitioning import MigInstance
from tests.partitioning import naive

GPUS = geometry.gpu_types()
MAXIMAL = [
    (7,), (4, 3), (4, 2, 1), (4, 1, 1, 1), (3, 3), (3, 2, 2), (3, 2, 1, 1), (3, 1, 1, 1, 1), (2, 2, 2, 1),
    (2, 2, 1, 1, 1), (2, 1, 1, 1, 1, 1), (1, 1, 1, 1, 1, 1, 1),
]  # fmt: skip


@pytest.mark.parametrize("gpu", GPUS)
def test_twelve_sets_of_sizes_fill_a_gpu(gpu: str) -> None:
    assert list(geometry.maximal_multisets(gpu)) == MAXIMAL


@pytest.mark.parametrize("gpu", GPUS)
def test_every_set_of_sizes_that_one_gpu_holds_is_found_and_none_else(gpu: str) -> None:
    found = {tuple(sum(one.gpcs == size for one in layout) for size in naive.SIZES) for layout in geometry.layouts(gpu)}
    assert found == naive.one_gpu()


def _brute_force(gpu: str) -> set[frozenset[tuple[str, int]]]:
    """All subsets of plain places whose memory slices do not meet, by trying the subsets themselves."""
    places = [(p.name, start, p.memory_slices) for p in PROFILES[gpu] if p.plain for start in p.starts]
    found = set()
    for count in range(8):
        for chosen in itertools.combinations(places, count):
            slices = [piece for _, start, size in chosen for piece in range(start, start + size)]
            if len(slices) == len(set(slices)):
                found.add(frozenset((name, start) for name, start, _ in chosen))
    return found


def test_layouts_are_all_subsets_of_places_that_do_not_overlap() -> None:
    layouts = [frozenset((one.profile, one.start) for one in layout) for layout in geometry.layouts("A100-40GB")]
    assert len(layouts) == len(set(layouts))
    assert set(layouts) == _brute_force("A100-40GB")


@pytest.mark.parametrize("gpu", GPUS)
def test_all_profiles_together_keep_the_limits_of_the_device(gpu: str) -> None:
    known = {profile.name: profile for profile in geometry.profiles(gpu)}
    most = dict.fromkeys(known, 0)
    for layout in geometry.layouts(gpu, geometry.profiles(gpu)):
        assert sum(known[one.profile].gpcs for one in layout) <= 7  # follows from the memory slices
        for name in known:
            most[name] = max(most[name], sum(one.profile == name for one in layout))
    assert most == {profile.name: profile.most for profile in known.values()}


@pytest.mark.parametrize(
    ("layout", "why"),
    [
        ([("3g.20gb", 3, 0), ("3g.20gb", 3, 4)], None),
        ([("4g.20gb", 4, 0), ("3g.20gb", 3, 4)], None),
        ([("1g.5gb", 1, 6), ("2g.10gb", 2, 4), ("1g.10gb", 1, 2), ("1g.5gb+me", 1, 0)], None),
        ([("4g.20gb", 4, 4)], "may start at 0, not at 4"),
        ([("1g.5gb", 1, 7)], "not at 7"),
        ([("2g.10gb", 2, 1)], "not at 1"),
        ([("1g.5gb", 1, 0), ("4g.20gb", 4, 0)], "overlaps"),
        ([("3g.20gb", 3, 4), ("1g.5gb", 1, 6)], "overlaps"),
        ([("1g.5gb+me", 1, 0), ("1g.5gb+me", 1, 1)], r"at most 1 of 1g.5gb\+me"),
        ([("2g.20gb", 2, 0)], "no profile"),
        ([("2g.10gb", 3, 0)], "has 2 GPCs"),
    ],
)
def test_a_layout_that_the_device_refuses_is_told_why(layout: list[tuple[str, int, int]], why: str | None) -> None:
    found = geometry.fault("A100-40GB", [MigInstance(*one) for one in layout])
    if why is None:
        assert found is None
    else:
        import re

        assert found is not None
        assert re.search(why, found)


@pytest.mark.parametrize("gpu", GPUS)
def test_names_are_nvidia_s_and_memory_grows_with_size(gpu: str) -> None:
    plain = geometry.plain(gpu)
    assert {gpcs: profile.name for gpcs, profile in plain.items()} == naive.NAMES[gpu]
    sizes = [profile.memory_mib for profile in plain.values()]
    assert sizes == sorted(sizes)
    for profile in plain.values():  # the name says gigabytes, rounded up, of which the driver keeps a little
        named = int(profile.name.split(".")[1].removesuffix("gb"))
        assert 0.85 * named < profile.memory_mib / 1024 <= named


def test_sizes_that_cannot_hold_a_model_are_known() -> None:
    assert geometry.holding("A100-40GB", 0) == (1, 2, 3, 4, 7)
    assert geometry.holding("A100-40GB", 4864 << 20) == (1, 2, 3, 4, 7)
    assert geometry.holding("A100-40GB", (4864 << 20) + 1) == (2, 3, 4, 7)
    assert geometry.holding("A100-40GB", 30 << 30) == (7,)
    assert geometry.holding("A100-40GB", 41 << 30) == ()
    assert geometry.holding("H200-141GB", 41 << 30) == (3, 4, 7)
