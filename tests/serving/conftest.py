"""Platforms of this folder: the shared one with two slices, and one whose only slice has little room."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.platform_functions import Gates, deploy, gates
from tests.platform_rig import Platform

FUNCTIONS = Path(__file__).parent / "functions"
# A worker costs some 8 to 16 MiB beside its weights: there is room for one of these, or for three of those.
ROOMY = {f"roomy-{letter}": {"MIB": "80", "VALUE": str(value)} for letter, value in (("a", 2), ("b", 3), ("c", 5))}
SMALL = {f"small-{letter}": {"MIB": "20", "VALUE": str(value)} for letter, value in (("a", 7), ("b", 11), ("c", 13))}
# Its tensors say 4 MiB, its worker holds 34 MiB more.
UNDERSTATED = {"understated": {"MIB": "4", "EXTRA_MIB": "34", "VALUE": "17"}}


@pytest.fixture(scope="session")
def small_slice() -> Iterator[Platform]:
    """One slice of 128 MiB; the functions above are deployed."""
    platform = Platform(("--slices", "1x1g:128MiB"))
    try:
        platform.up()
        platform.cli("build", str(FUNCTIONS / "shelf"), "-t", "shelf")
        for name, environment in {**ROOMY, **SMALL, **UNDERSTATED}.items():
            deploy(platform, name, "shelf", gpu=True, envVars=environment)
        yield platform
    finally:
        platform.remove()


@pytest.fixture(scope="session")
def built(platform: Platform) -> Platform:
    """The shared platform, with this folder's images."""
    for folder in sorted(FUNCTIONS.iterdir()):
        platform.cli("build", str(folder), "-t", f"serving-{folder.name}")
    return platform


@pytest.fixture
def gate() -> Iterator[Gates]:
    """Gates of one test."""
    with gates() as opened:
        yield opened
