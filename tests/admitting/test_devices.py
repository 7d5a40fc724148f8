"""Which slices a node has."""

from pathlib import Path

import pytest

from gpu_manager.service.devices.cpu import CpuSlices, parse
from gpu_manager.service.devices.emulated import Emulated
from proto.types.errors import SlicewiseError


def test_slices_are_written_as_counts_gpcs_and_bytes() -> None:
    assert parse("2x1g:512MiB,1x2g:1GiB,3g:1.5GB") == [(1, 512 << 20), (1, 512 << 20), (2, 1 << 30), (3, 1_500_000_000)]
    specs = [device.spec for device in CpuSlices("n", "2x1g:512MiB").slices()]
    assert [(spec.id, spec.index, spec.kind) for spec in specs] == [("n-s0", 0, "cpu"), ("n-s1", 1, "cpu")]


@pytest.mark.parametrize(
    "text", ["512MiB", "0x1g:1GiB", "1x0g:1GiB", "1x1g:0MiB", "1x1g:1", "65x1g:1MiB", "1x1g:1GiB,"]
)
def test_bad_slices_are_named(text: str) -> None:
    with pytest.raises(SlicewiseError) as refused:
        parse(text)
    assert refused.value.code == "bad_request"


def test_a_machine_without_a_gpu_has_slices_all_the_same() -> None:
    assert CpuSlices("n", "").slices()


def test_a_scenario_says_how_large_and_how_slow(tmp_path: Path) -> None:
    path = tmp_path / "scenario.yaml"
    path.write_text(
        "slices: [{id: x, gpcs: 7, memory_gb: 8.0}, {id: y, gpcs: 1, memory_gb: 2}]\n"
        "models:\n"
        "  resnet: {memory_gb: 1.9, load_s: 2.6, infer_s: {fixed: 1.25, per_item: 0.01}}\n"
        '  bert: {memory_gb: 1.2, load_s: 2.0, infer_s: {table: {"1": {"1": 0.01, "9": 0.05}, "7": {"1": 0.004}}}}\n'
    )
    emulated = Emulated("n", path, 0.5)
    large, small = emulated.slices()
    assert (large.spec.id, large.spec.memory_bytes, small.spec.gpcs) == ("n-s0", 8 * 10**9, 1)
    declared = emulated.declared("resnet")
    assert declared is not None
    assert (declared.held_bytes, declared.load_s) == (1_900_000_000, 1.3)
    assert emulated.infer_s("resnet", small, 5) == pytest.approx(0.65)
    assert emulated.infer_s("bert", small, 5) == pytest.approx(0.015)
    assert emulated.infer_s("bert", large, 64) == pytest.approx(0.002)
    assert emulated.declared("unknown") is None


@pytest.mark.parametrize(
    "text", ["models: {}", "slices: []\nmodels: {}", "slices: [{gpcs: 0, memory_gb: 1}]\nmodels: {}", "slices: [1"]
)
def test_a_bad_scenario_is_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "scenario.yaml"
    path.write_text(text)
    with pytest.raises(SlicewiseError) as refused:
        Emulated("n", path, 1.0)
    assert refused.value.code == "bad_request"
