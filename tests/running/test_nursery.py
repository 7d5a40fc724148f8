"""Libraries that a package names are imported once, and its workers forked with them."""

from __future__ import annotations

import importlib.metadata
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from gpu_manager.worker.sharing import package
from tests.running.conftest import Model, load
from tests.running.spy import Spy
from tests.running.stand_in import Peer, ZygoteProcess
from tests.running.test_worker import _sources

# Pure Python, quick to import, never imported by torch: stands for any large library.
LIBRARY = "uvicorn.config"


@pytest.fixture
async def peers() -> AsyncIterator[list[Peer]]:
    """Workers that are closed at the end."""
    made: list[Peer] = []
    yield made
    for peer in made:
        await peer.close()


def _package(folder: Path, modules: list[str], distributions: list[list[str]]) -> Path:
    skeleton, table, _ = package.skeleton_of(Spy())
    manifest = {"kind": "module", "digest": "d1", "modules": modules, "distributions": distributions}
    fd, size = package.write(manifest, skeleton, _sources(), table.dense())
    path = folder / "d1.package"
    path.write_bytes(os.pread(fd, size, 0))
    os.close(fd)
    return path


async def _fork(zygote: ZygoteProcess, path: Path, **order: Any) -> tuple[int, Peer]:
    with path.open("rb") as file:
        answer, peer = await zygote.fork(file.fileno(), **order)
    assert answer["ok"], answer
    return answer["pid"], peer


def _parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


async def test_workers_of_one_library_share_its_import(
    zygote: ZygoteProcess, tmp_path: Path, peers: list[Peer]
) -> None:
    path = _package(tmp_path, [LIBRARY], [["uvicorn", importlib.metadata.version("uvicorn")]])
    born = [await _fork(zygote, path) for _ in range(2)]
    peers.extend(peer for _, peer in born)
    parents = {_parent(pid) for pid, _ in born}
    assert len(parents) == 1
    assert zygote.process.pid not in parents
    for _, peer in born:
        assert (await load(peer, path, "d1"))["ok"]
        _, seen = await Model(peer, "d1").infer("forward")
        assert seen["ours"] == []
        assert sum(target.startswith("socket:") for target in seen["descriptors"]) == 1
    os.kill(born[0][0], signal.SIGKILL)
    assert await zygote.peer.unasked.get() == {"exited": born[0][0], "status": -9}


@pytest.mark.parametrize(
    ("modules", "distributions"),
    [
        ([LIBRARY], [["uvicorn", "0.0.1"]]),  # another version than the platform's
        (["no_such_module"], []),
        (["this"], []),  # not from site-packages
        ([], []),
    ],
)
async def test_what_is_not_the_platforms_own_is_not_imported_ahead(
    zygote: ZygoteProcess, tmp_path: Path, peers: list[Peer], modules: list[str], distributions: list[list[str]]
) -> None:
    pid, peer = await _fork(zygote, _package(tmp_path, modules, distributions))
    peers.append(peer)
    assert _parent(pid) == zygote.process.pid


async def test_an_environment_with_its_own_copy_goes_first(
    zygote: ZygoteProcess, tmp_path: Path, peers: list[Peer]
) -> None:
    (tmp_path / "uvicorn").mkdir()
    path = _package(tmp_path, [LIBRARY], [])
    pid, peer = await _fork(zygote, path, sys_path=[str(tmp_path)])
    peers.append(peer)
    assert _parent(pid) == zygote.process.pid


async def test_a_library_that_fails_to_import_costs_one_try(
    zygote: ZygoteProcess, tmp_path: Path, peers: list[Peer]
) -> None:
    path = _package(tmp_path, ["uvicorn.no_such_part"], [])
    for _ in range(2):
        pid, peer = await _fork(zygote, path)
        peers.append(peer)
        assert _parent(pid) == zygote.process.pid


async def test_a_nursery_that_dies_is_replaced(zygote: ZygoteProcess, tmp_path: Path, peers: list[Peer]) -> None:
    path = _package(tmp_path, [LIBRARY], [])
    pid, peer = await _fork(zygote, path)
    peers.append(peer)
    os.kill(_parent(pid), signal.SIGKILL)
    again, peer = await _fork(zygote, path)
    peers.append(peer)
    assert (await load(peer, path, "d1"))["ok"]
    assert (await Model(peer, "d1").infer("spend", 2))[1].item() == 2
    assert again != pid
