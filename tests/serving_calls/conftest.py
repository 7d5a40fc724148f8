from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import hypothesis  # noqa: F401 - imported late, beside torch, its sources break the rewriting of asserts
import pytest

from tests.node_rig.rig import Rig


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    rig = Rig(tmp_path)
    yield rig
    await rig.close()
