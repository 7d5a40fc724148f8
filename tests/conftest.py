"""What all tests share: a running platform for those that need one.

`platform` is one for the whole session: a live test leaves it as it found it (functions of its own
names, removed at its end). `start_platform` gives a test platforms of its own, with flags of its choice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.platform_rig import Platform


@pytest.fixture(scope="session")
def platform() -> Iterator[Platform]:
    """A running platform with two CPU slices of 1 GiB."""
    running = Platform()
    try:
        running.up()
        yield running
    finally:
        running.remove()


@pytest.fixture
def start_platform() -> Iterator[Callable[..., Platform]]:
    """`start_platform("--agents", "2")` brings up another platform; all end with the test."""
    started: list[Platform] = []

    def start(*flags: str, **environment: str) -> Platform:
        fresh = Platform(flags or Platform.flags, environment)
        started.append(fresh)
        fresh.up()
        return fresh

    yield start
    failures = []
    for one in started:
        try:
            one.remove()
        except AssertionError as error:
            failures.append(str(error))
    assert not failures, "\n".join(failures)
