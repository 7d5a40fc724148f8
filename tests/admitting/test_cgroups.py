"""The kernel's own limit on a worker, on real cgroups of whichever version is here."""

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpu_manager.service.cgroups import Cgroups, find

MIB = 1 << 20


@pytest.fixture
async def cgroups() -> Iterator[Cgroups]:
    found = find("test")
    if found.base is None:
        pytest.skip("this process may not make memory cgroups")
    yield found
    await found.close()
    assert not found.base.exists()


@contextlib.contextmanager
def child() -> Iterator[tuple[int, int, int]]:
    """(pid, where to write how many MiB it shall take, where it says that it has)."""
    ask, tell = os.pipe(), os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(ask[1])
        kept = []
        while text := os.read(ask[0], 16):
            kept.append(bytearray(int(text) * MIB))
            os.write(tell[1], b"x")
        os._exit(0)
    os.close(tell[1])
    try:
        yield pid, ask[1], tell[0]
    finally:
        for number in (*ask, tell[0]):
            os.close(number)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, 0)


def status_of(pid: int) -> int:
    return os.waitpid(pid, 0)[1]


async def test_a_worker_grows_up_to_its_limit_and_is_ended_beyond(cgroups: Cgroups) -> None:
    group = cgroups.make("w")
    assert group is not None
    with child() as (pid, ask, told):
        group.join(pid)
        group.limit(64 * MIB)
        os.write(ask, b"10")
        os.read(told, 1)
        group.settle(100 * MIB)  # it is said to hold more than is counted here: mapped files, pages from before
        group.limit(120 * MIB)
        os.write(ask, b"15")
        assert os.read(told, 1) == b"x"
        peak = group.peak_bytes()
        assert peak == 0 or 115 * MIB <= peak <= 120 * MIB
        assert not group.ended_it()
        os.write(ask, b"15")
        assert os.read(told, 1) == b""
        assert status_of(pid) == signal.SIGKILL
        assert group.ended_it()
    await group.remove()
    assert not group.path.exists()


async def test_a_load_that_maps_a_file_has_that_much_less(cgroups: Cgroups) -> None:
    group = cgroups.make("w")
    assert group is not None
    with child() as (pid, ask, told):
        group.join(pid)
        group.loading(40 * MIB)
        group.limit(64 * MIB)
        os.write(ask, b"30")
        assert os.read(told, 1) == b""
    await group.remove()


async def test_what_a_killed_node_left_is_taken_away(cgroups: Cgroups) -> None:
    assert cgroups.base is not None
    with child() as (pid, _, _):
        pass
    left = cgroups.base.parent / f"slicewise-other-{pid}"
    (left / "w").mkdir(parents=True)
    await find("test2").close()
    assert not left.exists()


def test_where_nothing_may_be_made_there_are_none(tmp_path: Path) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(f"31 23 0:28 / {tmp_path / 'nowhere'} rw - cgroup2 cgroup2 rw\n")
    groups = tmp_path / "groups"
    groups.write_text("0::/system.slice/slicewise.service\n")
    found = find("test", str(mounts), str(groups))
    assert found.base is None
    assert found.make("w") is None
