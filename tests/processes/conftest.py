"""This folder's images, built once on the shared platform."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.platform_rig import Platform

FUNCTIONS = Path(__file__).parent / "functions"


@pytest.fixture(scope="session")
def built(platform: Platform) -> Platform:
    """The shared platform, which knows each folder of `functions` as processes-NAME."""
    for folder in sorted(FUNCTIONS.iterdir()):
        platform.cli("build", str(folder), "-t", f"processes-{folder.name}")
    return platform
