"""Which devices this node has: what the settings name, else its GPUs, else its cores."""

from __future__ import annotations

from gpu_manager.service.devices import nvml
from gpu_manager.service.devices.cpu import CpuSlices
from gpu_manager.service.devices.emulated import Emulated
from gpu_manager.service.devices.seam import Devices
from gpu_manager.service.settings import GpuManagerSettings


def devices(settings: GpuManagerSettings) -> Devices:
    """The node's devices; raises SlicewiseError `bad_request` for settings that make no sense."""
    if settings.emulate is not None:
        return Emulated(settings.node, settings.emulate, settings.time_scale)
    if settings.slices:
        return CpuSlices(settings.node, settings.slices)
    return nvml.discover(settings.node) or CpuSlices(settings.node, "")
