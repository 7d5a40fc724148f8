"""What NVML answers on machines that tests do not have: pynvml's functions over written-down GPUs.

The figures are those that `nvidia-smi mig -lgip` and NVML's attributes give for these GPUs; a place without an
instance, a GPU without MIG and a machine without a driver answer with the errors that NVML has for them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pynvml

MIB = 1 << 20


def error(number: int) -> Exception:
    return pynvml.NVMLError(number)  # pynvml makes the class of that number of it


@dataclass
class Instance:
    """A MIG device: its UUID, and what nvmlDeviceGetAttributes says of it."""

    uuid: str
    gpu_slices: int
    compute_slices: int
    memory_mib: int
    multiprocessors: int


@dataclass
class Gpu:
    uuid: str
    total_mib: int
    free_mib: int
    mig: bool | None = None  # None: it knows no MIG
    places: list[Instance | None] = field(default_factory=list)
    profiles: dict[int, int] = field(default_factory=dict)  # profile -> its slices
    lost: bool = False


class RecordedNvml:
    """Stands in for the module pynvml."""

    NVMLError = pynvml.NVMLError
    NVML_DEVICE_MIG_ENABLE = pynvml.NVML_DEVICE_MIG_ENABLE
    NVML_GPU_INSTANCE_PROFILE_COUNT = pynvml.NVML_GPU_INSTANCE_PROFILE_COUNT
    NVML_ERROR_LIBRARY_NOT_FOUND = pynvml.NVML_ERROR_LIBRARY_NOT_FOUND
    NVML_ERROR_DRIVER_NOT_LOADED = pynvml.NVML_ERROR_DRIVER_NOT_LOADED

    def __init__(self, gpus: list[Gpu], init_error: int = 0, processes: dict[str, dict[int, int | None]] | None = None):
        self._gpus = gpus
        self._init_error = init_error
        self._processes = processes or {}
        self.open = 0

    def nvmlInit(self) -> None:
        if self._init_error:
            raise error(self._init_error)
        self.open += 1

    def nvmlShutdown(self) -> None:
        self.open -= 1

    def nvmlDeviceGetCount(self) -> int:
        return len(self._gpus)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> Gpu:
        if self._gpus[index].lost:
            raise error(pynvml.NVML_ERROR_GPU_IS_LOST)
        return self._gpus[index]

    def nvmlDeviceGetMigMode(self, gpu: Gpu) -> list[int]:
        if gpu.mig is None:
            raise error(pynvml.NVML_ERROR_NOT_SUPPORTED)
        return [int(gpu.mig), int(gpu.mig)]

    def nvmlDeviceGetMaxMigDeviceCount(self, gpu: Gpu) -> int:
        return len(gpu.places)

    def nvmlDeviceGetMigDeviceHandleByIndex(self, gpu: Gpu, index: int) -> Instance:
        found = gpu.places[index]
        if found is None:
            raise error(pynvml.NVML_ERROR_NOT_FOUND)
        return found

    def nvmlDeviceGetAttributes(self, handle: Any) -> SimpleNamespace:
        if not isinstance(handle, Instance):
            raise error(pynvml.NVML_ERROR_INVALID_ARGUMENT)
        return SimpleNamespace(
            multiprocessorCount=handle.multiprocessors, gpuInstanceSliceCount=handle.gpu_slices,
            computeInstanceSliceCount=handle.compute_slices, memorySizeMB=handle.memory_mib,
        )  # fmt: skip

    def nvmlDeviceGetGpuInstanceProfileInfo(self, gpu: Gpu, profile: int) -> SimpleNamespace:
        if profile not in gpu.profiles:
            raise error(pynvml.NVML_ERROR_NOT_SUPPORTED)
        return SimpleNamespace(sliceCount=gpu.profiles[profile])

    def nvmlDeviceGetMemoryInfo(self, handle: Gpu | Instance) -> SimpleNamespace:
        total = handle.memory_mib if isinstance(handle, Instance) else handle.total_mib
        free = handle.memory_mib - 13 if isinstance(handle, Instance) else handle.free_mib
        return SimpleNamespace(total=total * MIB, free=free * MIB, used=(total - free) * MIB)

    def nvmlDeviceGetUUID(self, handle: Gpu | Instance) -> str:
        return handle.uuid

    def nvmlDeviceGetComputeRunningProcesses(self, handle: Gpu | Instance) -> list[SimpleNamespace]:
        known = self._processes.get(handle.uuid)
        if known is None:
            raise error(pynvml.NVML_ERROR_NOT_SUPPORTED)
        return [SimpleNamespace(pid=pid, usedGpuMemory=used) for pid, used in known.items()]


# The instance profiles by NVML's numbers (1, 2, 3, 4 and 7 slices) that A100 and H100 have, and those of an A30.
SEVEN = {0: 1, 1: 2, 2: 3, 3: 4, 4: 7}
FOUR = {0: 1, 1: 2, 3: 4}


def a100_with_mig() -> RecordedNvml:
    """A100-SXM4-40GB cut into 3g.20gb, 2g.10gb and two of 1g.5gb; three of its seven places are empty."""
    places: list[Instance | None] = [
        Instance("MIG-11111111-0000-5000-8000-000000000003", 3, 3, 20096, 42),
        Instance("MIG-11111111-0000-5000-8000-000000000002", 2, 2, 9984, 28),
        None,
        Instance("MIG-11111111-0000-5000-8000-000000000001", 1, 1, 4864, 14),
        Instance("MIG-11111111-0000-5000-8000-000000000011", 1, 1, 4864, 14),
        None,
        None,
    ]
    return RecordedNvml([Gpu("GPU-11111111-a100", 40960, 40326, True, places, SEVEN)])


def h100_with_mig_and_a_whole_one(**more: Any) -> RecordedNvml:
    """Two H100-80GB: the first cut into 4g.40gb and 3g.40gb, the second whole and 2 GiB of it in use."""
    places: list[Instance | None] = [
        Instance("MIG-22222222-0000-5000-8000-000000000004", 4, 4, 40192, 64),
        Instance("MIG-22222222-0000-5000-8000-000000000003", 3, 3, 40192, 60),
        *[None] * 5,
    ]
    return RecordedNvml(
        [
            Gpu("GPU-22222222-h100", 81559, 81000, True, places, SEVEN),
            Gpu("GPU-33333333-h100", 81559, 79000, False, [], SEVEN),
        ],
        **more,
    )


def no_driver() -> RecordedNvml:
    """A machine without NVIDIA's library."""
    return RecordedNvml([], init_error=pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)


def driver_without_gpu() -> RecordedNvml:
    """The driver is there, the GPU is not."""
    return RecordedNvml([])
