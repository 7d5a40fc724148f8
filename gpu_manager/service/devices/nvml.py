"""GPUs and MIG instances, through NVML; torch is never imported in this process.

Compute is counted in MIG's own slices, so that a whole GPU and an instance of one compare: an A100 or H100 has
7 (an eighth GPC, where there is one, is not for MIG), an A30 has 4. What the GPU says of its largest
instance profile decides; one that knows no MIG counts as 7.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from types import ModuleType
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
    """Every MIG instance is a slice; a GPU without MIG is one whole slice. `nvml` is pynvml, initialised."""

    def __init__(self, node: str, nvml: ModuleType | Any) -> None:
        self._nvml = nvml
        self._node = node
        self._handles: dict[str, Any] = {}
        self._slices: list[Device] = []
        for number in range(nvml.nvmlDeviceGetCount()):
            try:
                gpu = nvml.nvmlDeviceGetHandleByIndex(number)
                if self._mig(gpu):
                    self._add_instances(number, gpu)
                else:
                    self._add_whole(gpu)
            except nvml.NVMLError as error:  # one lost GPU must not take the others with it
                _log.warning("GPU %d is left out: %s", number, error)

    def _mig(self, gpu: Any) -> bool:
        try:
            current, _ = self._nvml.nvmlDeviceGetMigMode(gpu)
        except self._nvml.NVMLError:  # knows no MIG
            return False
        return bool(current == self._nvml.NVML_DEVICE_MIG_ENABLE)

    def _add_instances(self, number: int, gpu: Any) -> None:
        found = list(self._instances(gpu))
        if not found:
            # CUDA cannot use such a GPU at all, so it is no slice either.
            _log.warning("GPU %d has MIG on and no instance; make some, or turn MIG off", number)
        for handle in found:
            attributes = self._nvml.nvmlDeviceGetAttributes(handle)
            whole, own = int(attributes.gpuInstanceSliceCount), int(attributes.computeInstanceSliceCount)
            # Compute instances of one GPU instance share its memory: each gets the part that its slices are.
            gpcs = own if 0 < own < whole else whole
            self._add(handle, gpcs, (int(attributes.memorySizeMB) << 20) * gpcs // whole, "mig")

    def _instances(self, gpu: Any) -> Iterator[Any]:
        for index in range(self._nvml.nvmlDeviceGetMaxMigDeviceCount(gpu)):
            try:
                yield self._nvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu, index)
            except self._nvml.NVMLError:  # places without an instance answer so
                continue

    def _add_whole(self, gpu: Any) -> None:
        # Others may use a whole GPU, too: what they hold at this moment is not ours to give away.
        self._add(gpu, self._gpcs(gpu), int(self._nvml.nvmlDeviceGetMemoryInfo(gpu).free), "gpu")

    def _gpcs(self, gpu: Any) -> int:
        nvml = self._nvml
        largest = 0
        for profile in range(nvml.NVML_GPU_INSTANCE_PROFILE_COUNT):
            try:
                largest = max(largest, int(nvml.nvmlDeviceGetGpuInstanceProfileInfo(gpu, profile).sliceCount))
            except nvml.NVMLError:  # a profile that this GPU does not have; all of them where it knows no MIG
                continue
        return largest or WHOLE_GPCS

    def _add(self, handle: Any, gpcs: int, memory_bytes: int, kind: str) -> None:
        index = len(self._slices)
        uuid = self._nvml.nvmlDeviceGetUUID(handle)
        name = uuid.decode() if isinstance(uuid, bytes) else str(uuid)
        budget = memory_bytes - RESERVE_BYTES
        if budget <= CONTEXT_BYTES:
            _log.warning("%s is left out: %d MiB are free, too few for one worker", name, memory_bytes >> 20)
            return
        spec = SliceSpec(f"{self._node}-s{index}", self._node, index, gpcs, budget, kind)
        self._handles[spec.id] = handle
        self._slices.append(Device(spec, 1, CONTEXT_BYTES, name))

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

    def process_bytes(self, device: Device, pid: int) -> int:
        """What NVML says that one process holds; not known in a container, where pids are others than the driver's."""
        try:
            for process in self._nvml.nvmlDeviceGetComputeRunningProcesses(self._handles[device.spec.id]):
                if process.pid == pid:
                    return int(process.usedGpuMemory or 0)
        except self._nvml.NVMLError as error:
            _log.warning("NVML does not say who uses %s: %s", device.spec.id, error)
        return 0

    def close(self) -> None:
        """End NVML's session."""
        self._nvml.nvmlShutdown()


def discover(node: str, nvml: ModuleType | Any = None) -> NvmlDevices | None:
    """The GPUs of this machine; None if it has none or no driver. `nvml` stands in for pynvml."""
    if nvml is None:
        import pynvml

        nvml = pynvml
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        absent = (nvml.NVML_ERROR_LIBRARY_NOT_FOUND, nvml.NVML_ERROR_DRIVER_NOT_LOADED)
        if getattr(error, "value", None) not in absent:
            _log.warning("there may be GPUs, but NVML does not start: %s", error)
        return None
    found = NvmlDevices(node, nvml)
    if not found.slices():
        found.close()
        return None
    return found
