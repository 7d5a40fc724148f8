"""This folder's images, each built when it is first asked for on the shared platform."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.platform_rig import Platform

FUNCTIONS = Path(__file__).parent / "functions"


@pytest.fixture(scope="session")
def built(platform: Platform) -> Callable[..., str]:
    """`built("servers")`: the name of that folder's image; `change(copy of the folder)` may complete it before."""
    known: set[str] = set()

    def build(folder: str, name: str = "", change: Callable[[Path], None] | None = None) -> str:
        image = f"processes-{name or folder}"
        if image not in known:
            source = FUNCTIONS / folder
            if change is not None:
                source = platform.state_dir / "sources" / image
                shutil.copytree(FUNCTIONS / folder, source)
                change(source)
            platform.cli("build", str(source), "-t", image)
            known.add(image)
        return image

    return build
