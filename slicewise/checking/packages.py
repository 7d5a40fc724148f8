"""How many tensors a registered model has, as its package in the node's store says."""

from __future__ import annotations

import io
import json
import os
import zipfile
from pathlib import Path

from slicewise.launcher.layout import Layout

_ALIGNED = 64  # functions/runtime/_slicewise/package.py says how a package lies in its file
_IN_ARCHIVE = ("/data/", "/constants/")


def tensors(layout: Layout, name: str) -> dict[str, int]:
    """Digest -> tensors; of a TorchScript model those that its archive holds."""
    found = {}
    for package in layout.node("local", "gpu_manager").glob(f"models/{name}.*/*"):
        if package.suffix:
            continue
        try:
            found[package.name] = _count(package)
        except (OSError, ValueError, KeyError, zipfile.BadZipFile):
            continue
    return found


def _count(package: Path) -> int:
    with package.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        manifest = json.loads(file.read(min(length, os.fstat(file.fileno()).st_size)))
        if manifest["kind"] != "torchscript":
            return len(manifest["tensors"])
        start, size = manifest["skeleton"]
        file.seek(-(-(8 + length) // _ALIGNED) * _ALIGNED + start)
        names = zipfile.ZipFile(io.BytesIO(file.read(size))).namelist()
    return sum(any(part in name for part in _IN_ARCHIVE) and name.rpartition("/")[2].isdigit() for name in names)
