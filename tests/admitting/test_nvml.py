"""Slices from what NVML says: MIG instances, whole GPUs, neither. The GPUs are written down, the code is ours."""

from __future__ import annotations

import logging

import pynvml
import pytest

from gpu_manager.service.devices import nvml
from gpu_manager.service.devices.choice import devices
from gpu_manager.service.devices.cpu import CpuSlices
from gpu_manager.service.settings import GpuManagerSettings
from tests.admitting import recorded_nvml as recorded
from tests.admitting.recorded_nvml import FOUR, MIB, Gpu, Instance, RecordedNvml


def found(machine: RecordedNvml) -> nvml.NvmlDevices:
    discovered = nvml.discover("n", machine)
    assert discovered is not None
    return discovered


def test_each_instance_of_an_a100_is_a_slice() -> None:
    slices = found(recorded.a100_with_mig()).slices()
    assert [(d.spec.id, d.spec.index, d.spec.kind) for d in slices] == [(f"n-s{i}", i, "mig") for i in range(4)]
    assert [d.spec.gpcs for d in slices] == [3, 2, 1, 1]
    assert [d.spec.memory_bytes for d in slices] == [m * MIB - nvml.RESERVE_BYTES for m in (20096, 9984, 4864, 4864)]
    assert [d.cuda[-3:] for d in slices] == ["003", "002", "001", "011"]
    assert all(d.cuda.startswith("MIG-") and d.overhead_bytes == nvml.CONTEXT_BYTES for d in slices)


def test_a_mixed_node_has_instances_and_a_whole_gpu() -> None:
    slices = found(recorded.h100_with_mig_and_a_whole_one()).slices()
    assert [(d.spec.kind, d.spec.gpcs) for d in slices] == [("mig", 4), ("mig", 3), ("gpu", 7)]
    assert slices[2].cuda == "GPU-33333333-h100"
    # Of a whole GPU others may hold a part, which is not ours to give away.
    assert slices[2].spec.memory_bytes == 79000 * MIB - nvml.RESERVE_BYTES


def test_without_nvml_the_node_has_cpu_slices(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    assert nvml.discover("n", recorded.no_driver()) is None
    assert not caplog.records  # a machine without a GPU is nothing to warn of
    machine = recorded.driver_without_gpu()
    assert nvml.discover("n", machine) is None
    assert machine.open == 0  # NVML's session was ended
    for name in ("nvmlInit", "nvmlShutdown", "nvmlDeviceGetCount"):
        monkeypatch.setattr(pynvml, name, getattr(machine, name))
    settings = GpuManagerSettings.model_construct(node="n", emulate=None, slices="")
    chosen = devices(settings)
    assert isinstance(chosen, CpuSlices)
    assert all(d.spec.kind == "cpu" and d.cuda == "" for d in chosen.slices())


def test_a_driver_that_does_not_start_is_told_of(caplog: pytest.LogCaptureFixture) -> None:
    machine = RecordedNvml([], init_error=pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH)
    assert nvml.discover("n", machine) is None
    assert "NVML does not start" in caplog.text


def test_mig_without_instances_is_no_slice_and_a_lost_gpu_takes_no_other_with_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    empty = Gpu("GPU-empty", 40960, 40326, mig=True, places=[None] * 7)
    lost = Gpu("GPU-lost", 1, 1, lost=True)
    full = Gpu("GPU-full", 16384, 500)
    old = Gpu("GPU-old", 16160, 15800)  # knows no MIG at all
    small = Gpu("GPU-a30", 24576, 24000, mig=False, profiles=FOUR)
    with caplog.at_level(logging.WARNING):
        slices = found(RecordedNvml([empty, lost, full, old, small])).slices()
    assert [(d.spec.id, d.cuda, d.spec.gpcs) for d in slices] == [("n-s0", "GPU-old", 7), ("n-s1", "GPU-a30", 4)]
    assert "no instance" in caplog.text
    assert "GPU 1 is left out" in caplog.text
    assert "GPU-full is left out" in caplog.text


def test_compute_instances_share_the_memory_of_their_gpu_instance() -> None:
    parts: list[Instance | None] = [Instance("MIG-1c", 3, 1, 20096, 14), Instance("MIG-2c", 3, 2, 20096, 28)]
    slices = found(RecordedNvml([Gpu("GPU", 40960, 40000, True, parts)])).slices()
    assert [d.spec.gpcs for d in slices] == [1, 2]
    assert sum(d.spec.memory_bytes + nvml.RESERVE_BYTES for d in slices) <= 20096 * MIB


def test_what_is_free_and_who_holds_what_is_asked_of_the_instance_itself() -> None:
    processes: dict[str, dict[int, int | None]] = {"GPU-33333333-h100": {41: 700 * MIB, 42: None}}
    devices = found(recorded.h100_with_mig_and_a_whole_one(processes=processes))
    instance, _, whole = devices.slices()
    assert devices.free_bytes(instance) == (40192 - 13) * MIB
    assert devices.free_bytes(whole) == 79000 * MIB
    assert devices.process_bytes(whole, 41) == 700 * MIB
    assert devices.process_bytes(whole, 42) == devices.process_bytes(whole, 43) == 0  # not said, not there
    assert devices.process_bytes(instance, 41) == 0  # NVML does not answer
