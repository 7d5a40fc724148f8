"""Two GPU managers as if on two machines, `a` and `b`, with one slice each; one platform for the folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.platform_rig import Platform
from tests.two_nodes.pair import Pair


@pytest.fixture(scope="package")
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
    """The platform, with both slices idle and empty of what other tests deployed."""
    _running.begin()
    yield _running
    _running.finish()
