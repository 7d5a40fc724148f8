"""Platforms of this folder: the shared one, and one whose model store is small and collected at once."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.platform_functions import Gates, deploy, gates, remove
from tests.platform_rig import Platform

FUNCTIONS = Path(__file__).parent / "functions"
STORE_MIB = 24


@pytest.fixture(scope="session")
def numbers(platform: Platform) -> Iterator[Platform]:
    """The shared platform with the functions `numbers` and `small`."""
    for folder in sorted(FUNCTIONS.iterdir()):
        platform.cli("build", str(folder), "-t", f"refusing-{folder.name}")
    deploy(platform, "numbers", "refusing-numbers", gpu=True)
    deploy(platform, "numbers-cpu", "refusing-numbers")
    yield platform
    remove(platform, "numbers", "numbers-cpu")


@pytest.fixture(scope="session")
def small_store() -> Iterator[Platform]:
    """One slice of 512 MiB; models lie on a disk of 24 MiB and go as soon as no function refers to them."""
    if os.geteuid() != 0:
        pytest.skip("a small disk can be mounted by root only")
    platform = Platform(("--slices", "1x1g:512MiB"))
    store = store_of(platform)
    store.mkdir(parents=True)
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={STORE_MIB}m", "none", store], check=False)
    if mounted.returncode:
        platform.remove()
        pytest.skip("a small disk cannot be mounted here")
    settings = platform.state_dir / "up.yaml"
    settings.write_text("gpu_manager: {collect_grace_s: 0}\n")
    try:
        platform.up("--config", str(settings))
        platform.cli("build", str(FUNCTIONS / "sized"), "-t", "sized")
        yield platform
    finally:
        platform.down()
        subprocess.run(["umount", "-l", store], check=False)
        platform.remove()


def store_of(platform: Platform) -> Path:
    """Where a one-node platform keeps its models."""
    return platform.state_dir / "nodes" / "local" / "gpu_manager" / "models"


@pytest.fixture
def gate() -> Iterator[Gates]:
    """Gates of one test."""
    with gates() as opened:
        yield opened
