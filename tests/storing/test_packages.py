"""The model store: whole packages or none."""

from __future__ import annotations

import dataclasses
import errno
import os
from pathlib import Path

import pytest
import torch

from gpu_manager.service import store as store_module
from gpu_manager.service.store import Store
from proto.types.errors import SlicewiseError
from tests.node_rig.models import Package, pack

A, B = "alpha.openfaas-fn@1", "beta.openfaas-fn@1"
FUNCTION = "alpha.openfaas-fn"


@pytest.fixture
def package() -> Package:
    return pack(torch.nn.Linear(8, 8), A)


def files(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())


async def test_a_package_is_kept_once_and_found_again_after_a_restart(tmp_path: Path, package: Package) -> None:
    changes: list[int] = []
    store = Store(tmp_path, lambda: changes.append(1))
    first = await store.put(package.model, package.fd)
    assert await store.put(package.model, package.fd) == first
    assert len(changes) == 1
    again = Store(tmp_path)
    assert again.get(FUNCTION, package.model.digest) == first
    fd = again.open(FUNCTION, package.model.digest)
    assert os.pread(fd, first.size, 0) == os.pread(package.fd, first.size, 0)
    os.close(fd)


async def test_a_package_belongs_to_its_function(tmp_path: Path, package: Package) -> None:
    store = Store(tmp_path)
    await store.put(package.model, package.fd)
    assert store.get("beta.openfaas-fn", package.model.digest) is None
    await store.put(dataclasses.replace(package.model, worker=B), package.fd)
    assert store.get("beta.openfaas-fn", package.model.digest) is not None


@pytest.mark.parametrize("where", ["tensors", "skeleton", "manifest", "end"])
async def test_a_damaged_package_is_refused_and_leaves_nothing(tmp_path: Path, package: Package, where: str) -> None:
    size = package.model.package_bytes
    data = bytearray(os.pread(package.fd, size, 0))
    length = int.from_bytes(data[:8], "little")
    start = (8 + length + 63) // 64 * 64
    position = {"tensors": size - 3, "skeleton": start + 5, "manifest": 40, "end": size - 1}[where]
    data[position] ^= 0xFF
    fd = os.memfd_create("damaged")
    os.write(fd, data[:-8] if where == "end" else data)
    store = Store(tmp_path)
    model = dataclasses.replace(package.model, package_bytes=0)
    with pytest.raises(SlicewiseError) as refused:
        await store.put(model, fd)
    assert refused.value.code == "bad_digest"
    assert files(tmp_path) == []


async def test_another_digest_than_announced_is_refused(tmp_path: Path, package: Package) -> None:
    for change in ({"digest": "0" * 64}, {"package_bytes": 7}, {"digest": "../../etc/x"}):
        with pytest.raises(SlicewiseError) as refused:
            await Store(tmp_path).put(dataclasses.replace(package.model, **change), package.fd)
        assert refused.value.code == "bad_digest"
    assert files(tmp_path) == []


async def test_a_full_disk_is_said_and_leaves_nothing(
    tmp_path: Path, package: Package, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(fd: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(store_module.os, "fsync", full)
    store = Store(tmp_path)
    with pytest.raises(SlicewiseError) as refused:
        await store.put(package.model, package.fd)
    assert refused.value.code == "disk_full"
    assert files(tmp_path) == []
    monkeypatch.undo()
    assert (await store.put(package.model, package.fd)).size == package.model.package_bytes


async def test_what_a_crash_left_behind_is_cleared(tmp_path: Path, package: Package) -> None:
    store = Store(tmp_path)
    stored = await store.put(package.model, package.fd)
    folder = stored.path.parent
    (folder / "abc.1.partial").write_bytes(b"half")
    (folder / "without-record").write_bytes(b"half")
    stored.path.chmod(0o644)
    os.truncate(stored.path, 10)
    assert Store(tmp_path).digests() == []
    assert files(tmp_path) == []


async def test_what_no_function_wants_goes_after_its_grace(tmp_path: Path, package: Package) -> None:
    store = Store(tmp_path)
    await store.put(package.model, package.fd)
    digest = package.model.digest
    assert store.collect([], 60.0)  # young: to be looked at again
    assert store.digests() == [digest]
    assert not store.collect([digest], 0.0)
    assert not store.collect([], 0.0, in_use=[digest])
    assert store.digests() == [digest]
    assert not store.collect([], 0.0)
    assert files(tmp_path) == []
