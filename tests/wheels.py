"""Wheels made on the spot: private packages that no index has."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path


def make(folder: Path, name: str, version: str, files: Mapping[str, str]) -> Path:
    """A pure Python wheel in `folder` with these files (path in site-packages -> text)."""
    info = f"{name}-{version}.dist-info"
    own = {
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{path},,\n" for path in (*files, *own, f"{info}/RECORD"))
    wheel = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, text in {**files, **own, f"{info}/RECORD": record}.items():
            archive.writestr(path, text)
    return wheel
