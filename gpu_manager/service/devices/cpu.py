"""CPU slices: threads by GPCs, memory by budget. For laptops, tests, and models that need no more."""

from __future__ import annotations

import os
import re

import psutil

from gpu_manager.service.devices.seam import Device, Devices
from proto.types.errors import SlicewiseError
from proto.types.slices import SliceSpec

# A fresh fork of the zygote that has run one small model, measured: what it has dirtied of its own.
WORKER_OVERHEAD_BYTES = 48 << 20
MAX_SLICES = 64
_PART = re.compile(r"^(?:(\d+)x)?(\d+)g:(\d+(?:\.\d+)?)(B|KiB|MiB|GiB|KB|MB|GB)$")
_UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "KB": 10**3, "MB": 10**6, "GB": 10**9}
_DEFAULT_SHARE = 4  # a quarter of the memory goes to slices nobody asked for
_DEFAULT_MAX_BYTES = 4 << 30


def parse(text: str) -> list[tuple[int, int]]:
    """(gpcs, bytes) of each slice in "2x1g:512MiB,1x2g:1GiB"; raises SlicewiseError `bad_request`."""
    found: list[tuple[int, int]] = []
    for part in text.split(","):
        match = _PART.match(part.strip())
        if match is None or not int(match[2]) or not float(match[3]) or match[1] == "0":
            raise SlicewiseError(
                "bad_request", f"slices: {part.strip()!r} is not COUNTxGPCSg:BYTES, as in 2x1g:512MiB,1x2g:1GiB."
            )
        count = int(match[1] or 1)
        if len(found) + count > MAX_SLICES:
            raise SlicewiseError("bad_request", f"slices: a node has at most {MAX_SLICES} slices.")
        found += [(int(match[2]), int(float(match[3]) * _UNITS[match[4]]))] * count
    return found


class CpuSlices(Devices):
    """Slices of this machine's cores."""

    def __init__(self, node: str, text: str) -> None:
        cores = os.cpu_count() or 1
        sizes = parse(text) if text else _default(cores)
        self._slices = [
            Device(
                SliceSpec(f"{node}-s{index}", node, index, gpcs, size, "cpu"),
                min(gpcs, cores),
                min(WORKER_OVERHEAD_BYTES, size // 4),
            )
            for index, (gpcs, size) in enumerate(sizes)
        ]

    def slices(self) -> list[Device]:
        """As the settings say, or one a core up to four."""
        return self._slices


def _default(cores: int) -> list[tuple[int, int]]:
    count = max(1, min(4, cores))
    size = min(_DEFAULT_MAX_BYTES, psutil.virtual_memory().total // _DEFAULT_SHARE // count)
    return [(1, size)] * count
