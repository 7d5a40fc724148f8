"""The yard of this folder: one platform for all its tests, which none of them may harm."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator

import pytest

from tests.hostile.yard import Yard, open_platform

# Of one replica: small, so that little time goes by until they are met.
MAX_PROCESSES = 128
TMP_MIB = 48

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="without root there is one tenant, who is not kept apart")


@pytest.fixture(scope="session")
def whole_yard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Yard]:
    """The platform with its two functions."""
    platform = open_platform("--slices", "2x1g:512MiB")
    settings = tmp_path_factory.mktemp("hostile") / "up.yaml"
    settings.write_text(json.dumps({"host_service": {"max_processes": MAX_PROCESSES, "tmp_bytes": TMP_MIB << 20}}))
    try:
        platform.up("--config", str(settings))
        yard = Yard(platform)
        yard.furnish()
        yield yard
    finally:
        platform.remove()


@pytest.fixture
def yard(whole_yard: Yard) -> Iterator[Yard]:
    """The same, looked at before and after."""
    yield from _steady(whole_yard)


def _steady(yard: Yard) -> Iterator[Yard]:
    looks = yard.steady()
    next(looks)
    yield yard
    next(looks, None)
