"""Two nodes with one slice each, as the tests of two nodes have them; what is looked at is the page of metrics."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.platform_rig import Platform
from tests.two_nodes.pair import Pair


@pytest.fixture(scope="module")
def _running() -> Iterator[Pair]:
    platform = Platform(("--agents", "2", "--slices", "1x1g:1GiB"))
    try:
        platform.up()
        with Pair(platform) as pair:
            yield pair
    finally:
        platform.remove()


@pytest.fixture
def pair(_running: Pair) -> Iterator[Pair]:
    _running.begin()
    yield _running
    _running.finish()
