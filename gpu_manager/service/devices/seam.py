"""What the rest of the GPU manager knows of a device: a slice, how to aim a worker at it, what is emulated."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from proto.types.slices import SliceSpec


@dataclass(frozen=True, slots=True)
class Device:
    """One slice. `cuda` is the worker's CUDA_VISIBLE_DEVICES, "" on the CPU."""

    spec: SliceSpec
    threads: int
    overhead_bytes: int  # of a worker without models
    cuda: str = ""


@dataclass(frozen=True, slots=True)
class Declared:
    """What a scenario says of a worker: its bytes and seconds, instead of measured ones."""

    held_bytes: int
    load_s: float


class Devices(ABC):
    """One kind of hardware on this node."""

    @abstractmethod
    def slices(self) -> list[Device]:
        """The slices, in the order of their index."""

    def free_bytes(self, device: Device) -> int:
        """Bytes that the hardware has free now, for the figure of a worker's own context; 0: not known."""
        return 0

    def process_bytes(self, device: Device, pid: int) -> int:
        """Bytes of the device that a process holds, as the hardware counts them; 0: not known."""
        return 0

    def declared(self, function_name: str) -> Declared | None:
        """What is emulated for a function; None: it is real."""
        return None

    def infer_s(self, function_name: str, device: Device, batch: int) -> float:
        """How long one call takes at least, in seconds."""
        return 0.0

    def close(self) -> None:  # noqa: B027
        """Give back what was opened."""
