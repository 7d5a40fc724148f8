"""The MIG profiles of each GPU type: the one table of names, sizes, places and memory.

Places and compute are the same on A100, H100 and H200: 7 compute slices, 8 memory slices, and fixed starts for each
class of profile (NVIDIA's MIG user guide; go-nvml's A100 mock for placements). What differs is the memory of
a slice, hence the names, and the SMs. Memory is what the driver reports, in MiB; it varies a little between drivers,
and where reports differ the smallest stands here. What may stand beside what is geometry's part.
"""

from __future__ import annotations

from dataclasses import dataclass

COMPUTE_SLICES = 7
MEMORY_SLICES = 8


@dataclass(frozen=True, slots=True)
class MigProfile:
    """A kind of GPU instance. It occupies `memory_slices` from one of `starts`; at most `most` on one GPU."""

    name: str
    id: int  # what `nvidia-smi mig -cgi` calls it
    gpcs: int
    memory_slices: int
    starts: tuple[int, ...]
    most: int
    memory_mib: int
    sms: int
    plain: bool = True  # neither media engines nor double memory: what plans use


# class: (profile id, compute slices, memory slices, starts, most on one GPU, plain)
_CLASSES = {
    "1g": (19, 1, 1, (0, 1, 2, 3, 4, 5, 6), 7, True),
    "1g+me": (20, 1, 1, (0, 1, 2, 3, 4, 5, 6), 1, False),
    "1g double": (15, 1, 2, (0, 2, 4, 6), 4, False),
    "2g": (14, 2, 2, (0, 2, 4), 3, True),
    "3g": (9, 3, 4, (0, 4), 2, True),
    "4g": (5, 4, 4, (0,), 1, True),
    "7g": (0, 7, 8, (0,), 1, True),
}

# GPU type -> class: (name, memory in MiB, SMs)
_GPUS = {
    "A100-40GB": {
        "1g": ("1g.5gb", 4864, 14),
        "1g+me": ("1g.5gb+me", 4864, 14),
        "1g double": ("1g.10gb", 9856, 14),
        "2g": ("2g.10gb", 9856, 28),
        "3g": ("3g.20gb", 19968, 42),
        "4g": ("4g.20gb", 19968, 56),
        "7g": ("7g.40gb", 40192, 98),
    },
    "A100-80GB": {
        "1g": ("1g.10gb", 9728, 14),
        "1g+me": ("1g.10gb+me", 9728, 14),
        "1g double": ("1g.20gb", 19968, 14),
        "2g": ("2g.20gb", 19968, 28),
        "3g": ("3g.40gb", 40192, 42),
        "4g": ("4g.40gb", 40192, 56),
        "7g": ("7g.80gb", 80384, 98),
    },
    "H100-80GB": {
        "1g": ("1g.10gb", 9984, 16),
        "1g+me": ("1g.10gb+me", 9984, 16),
        "1g double": ("1g.20gb", 20090, 26),
        "2g": ("2g.20gb", 20090, 32),
        "3g": ("3g.40gb", 40448, 60),
        "4g": ("4g.40gb", 40448, 64),
        "7g": ("7g.80gb", 81152, 132),
    },
    "H200-141GB": {
        "1g": ("1g.18gb", 16384, 16),
        "1g+me": ("1g.18gb+me", 16384, 16),
        "1g double": ("1g.35gb", 33280, 26),
        "2g": ("2g.35gb", 33280, 32),
        "3g": ("3g.71gb", 71168, 60),
        "4g": ("4g.71gb", 71168, 64),
        "7g": ("7g.141gb", 143360, 132),
    },
}


def _profile(kind: str, name: str, memory_mib: int, sms: int) -> MigProfile:
    number, gpcs, memory_slices, starts, most, plain = _CLASSES[kind]
    return MigProfile(name, number, gpcs, memory_slices, starts, most, memory_mib, sms, plain)


PROFILES: dict[str, tuple[MigProfile, ...]] = {
    gpu: tuple(_profile(kind, *given) for kind, given in row.items()) for gpu, row in _GPUS.items()
}
"""GPU type -> its profiles, smallest first."""
