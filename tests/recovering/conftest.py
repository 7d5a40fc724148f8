"""The platforms of this folder: each is brought up once, and each test leaves it with nothing under way."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from tests.platform_rig import Platform
from tests.recovering.scene import Scene

# Of the platform with tight limits; the tests on it are about these.
QUEUE_LIMIT = 4
DEADLINE_S = 4.0


def _run(*flags: str) -> Iterator[Scene]:
    running = Platform(flags)
    try:
        running.up()
        scene = Scene(running)
        try:
            yield scene
        finally:
            scene.close()
    finally:
        running.remove()


@pytest.fixture(scope="session")
def _one() -> Iterator[Scene]:
    yield from _run("--slices", "1x1g:80MiB")


@pytest.fixture(scope="session")
def _two() -> Iterator[Scene]:
    yield from _run("--slices", "2x1g:80MiB")


@pytest.fixture(scope="session")
def _tight(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    file: Path = tmp_path_factory.mktemp("tight") / "up.yaml"
    limits = {"scheduler": {"queue_limit": QUEUE_LIMIT}, "gateway": {"upstream_timeout": f"{DEADLINE_S:g}s"}}
    YAML().dump(limits, file)
    yield from _run("--slices", "1x1g:80MiB", "--config", str(file))


@pytest.fixture
def one(_one: Scene) -> Iterator[Scene]:
    """One slice."""
    yield _one
    _one.settled()


@pytest.fixture
def two(_two: Scene) -> Iterator[Scene]:
    """Two slices on one node."""
    yield _two
    _two.settled()


@pytest.fixture
def tight(_tight: Scene) -> Iterator[Scene]:
    """One slice, a short queue and a short deadline."""
    yield _tight
    _tight.settled()


Deploy = Callable[..., str]
