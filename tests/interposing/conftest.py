"""One stand-in for broker and door a module: handlers of a module share its worker, as replicas would."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

pytest.importorskip("torch")

from tests.running.stand_in import StandIn


@pytest.fixture(scope="module")
def stand_in(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandIn]:
    """A broker that answers."""
    with StandIn(tmp_path_factory.mktemp("stand-in")) as started:
        yield started


@pytest.fixture(autouse=True)
def _forget(stand_in: StandIn) -> None:
    """Each test sees what its own handler said, and has a worker of its own."""
    stand_in.start_anew()
