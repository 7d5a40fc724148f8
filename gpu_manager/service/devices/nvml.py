"""GPUs and MIG instances, through NVML; torch is never imported in this process."""

from __future__ import annotations

import logging
from typing import Any

from gpu_manager.service.devices.seam import Device, Devices
from proto.types.slices import SliceSpec

_log = logging.getLogger(__name__)

# A CUDA context with cuBLAS and cuDNN handles; the true size of each worker is measured once it has loaded.
CONTEXT_BYTES = 700 << 20
# What the driver needs beyond what it reports; without it a full budget fails in the last allocation.
RESERVE_BYTES = 256 << 20
WHOLE_GPCS = 7


class NvmlDevices(Devices):
    """Every MIG instance is a slice; a GPU without MIG is one whole slice."""

    def __init__(self, node: str, nvml: Any) -> None:
        self._nvml = nvml
        self._handles: dict[str, Any] = {}
        self._slices: list[Device] = []
        for number in range(nvml.nvmlDeviceGetCount()):
            gpu = nvml.nvmlDeviceGetHandleByIndex(number)
            instances = self._instances(gpu)
            for handle in instances or [gpu]:
                self._add(node, handle, mig=bool(instances))

    def _instances(self, gpu: Any) -> list[Any]:
        nvml = self._nvml
        try:
            current, _ = nvml.nvmlDeviceGetMigMode(gpu)
            if current != nvml.NVML_DEVICE_MIG_ENABLE:
                return []
            count = nvml.nvmlDeviceGetMaxMigDeviceCount(gpu)
        except nvml.NVMLError:
            return []
        found = []
        for index in range(count):
            try:
                found.append(nvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu, index))
            except nvml.NVMLError:  # places without an instance answer so
                continue
        return found

    def _add(self, node: str, handle: Any, *, mig: bool) -> None:
        nvml = self._nvml
        index = len(self._slices)
        memory = nvml.nvmlDeviceGetMemoryInfo(handle)
        gpcs = int(nvml.nvmlDeviceGetAttributes(handle).gpuInstanceSliceCount) if mig else WHOLE_GPCS
        name = nvml.nvmlDeviceGetUUID(handle)
        uuid = name.decode() if isinstance(name, bytes) else str(name)
        budget = max(CONTEXT_BYTES, int(memory.free) - RESERVE_BYTES)
        spec = SliceSpec(f"{node}-s{index}", node, index, gpcs, budget, "mig" if mig else "gpu")
        self._handles[spec.id] = handle
        self._slices.append(Device(spec, 1, CONTEXT_BYTES, uuid))

    def slices(self) -> list[Device]:
        """All of them, GPUs in NVML's order."""
        return self._slices

    def free_bytes(self, device: Device) -> int:
        """What NVML says is free."""
        try:
            return int(self._nvml.nvmlDeviceGetMemoryInfo(self._handles[device.spec.id]).free)
        except self._nvml.NVMLError as error:
            _log.warning("NVML does not say how much of %s is free: %s", device.spec.id, error)
            return 0

    def close(self) -> None:
        """End NVML's session."""
        self._nvml.nvmlShutdown()


def discover(node: str) -> NvmlDevices | None:
    """The GPUs of this machine; None if it has none or no driver."""
    import pynvml

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return None
    found = NvmlDevices(node, pynvml)
    if not found.slices():
        found.close()
        return None
    return found
