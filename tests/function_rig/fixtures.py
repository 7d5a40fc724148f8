"""Fixtures for tests that need a real host."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.function_rig.rig import HostRig, shut

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="uids of functions' own need root")


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def host(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[HostRig]:
    """One host for the tests of a module; each test deploys functions of its own name."""
    rig = HostRig(tmp_path_factory.mktemp("host"))
    await rig.start()
    yield rig
    await shut(rig)


@pytest_asyncio.fixture
async def own_host(tmp_path: Path) -> AsyncIterator[HostRig]:
    """A host that a test may kill."""
    rig = HostRig(tmp_path)
    await rig.start()
    yield rig
    await shut(rig)
