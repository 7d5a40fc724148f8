"""One gateway for all tests of a folder; each test uses functions of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.gateway_rig.rig import Rig


@pytest.fixture(scope="package")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    made = Rig(tmp_path_factory.mktemp("gateway"), **SETTINGS)
    try:
        made.start()
        yield made
    finally:
        made.close()


# Limits small enough to be met in a test.
SETTINGS = {
    "max_body_bytes": 60 * 1024 * 1024,
    "spool_memory_bytes": 64 * 1024,
    "max_in_flight": 8,
    "drain_timeout": "20s",
    "namespaces": ["openfaas-fn", "staging"],
}
