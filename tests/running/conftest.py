"""Real zygotes and the packages they load, made by the runtime's own code."""

from __future__ import annotations

import io
import json
import os
import pickle
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

torch = pytest.importorskip("torch")

from gpu_manager.worker.sharing import package, payload, tree  # noqa: E402
from tests.running.stand_in import Peer, ZygoteProcess  # noqa: E402


class Model:
    """A worker with one model loaded, called as the GPU manager would."""

    def __init__(self, peer: Peer, digest: str) -> None:
        self.peer = peer
        self.digest = digest

    async def infer(self, method: str, *args: Any, **more: Any) -> tuple[dict[str, Any], Any]:
        """(answer, value) of one call; the value is None when it failed."""
        gathering = payload.Gathering()
        file = io.BytesIO()
        _Arguments(file, gathering).dump((args, {}))
        layout, buffers, _ = gathering.lay_out(file.getvalue())
        fd = payload.to_memfd(buffers)
        header = {"op": "infer", "model": self.digest, "method": method, "layout": layout, **more}
        try:
            answer, received = await self.peer.ask(header, [fd])
        finally:
            os.close(fd)
        if not answer["ok"]:
            return answer, None
        buffer = payload.map_file(received[0], answer["bytes"])
        os.close(received[0])
        blob = json.loads(bytes(memoryview(buffer)[: answer["layout"]["blob"]]))
        return answer, tree.decode(blob, payload.tensors_of(buffer, answer["layout"]["tensors"]))


class _Arguments(pickle.Pickler):
    def __init__(self, file: io.BytesIO, gathering: Any) -> None:
        super().__init__(file, 4)
        self._gathering = gathering

    def persistent_id(self, obj: Any) -> Any:
        return self._gathering.add(obj) if isinstance(obj, torch.Tensor) else None


def write_package(folder: Path, module: Any, digest: str, sources: bytes = b"") -> Path:
    """The package of a module as a file."""
    skeleton, table, _ = package.skeleton_of(module)
    manifest = {"kind": "module", "digest": digest, "modules": []}
    fd, size = package.write(manifest, skeleton, sources, table.dense())
    path = folder / f"{digest}.package"
    path.write_bytes(os.pread(fd, size, 0))
    os.close(fd)
    return path


async def load(peer: Peer, path: Path, digest: str, kind: str = "module", **more: Any) -> dict[str, Any]:
    """The answer to a `load` of the package at `path`."""
    with path.open("rb") as file:
        header = {"op": "load", "digest": digest, "kind": kind, "device": "cpu", **more}
        answer, _ = await peer.ask(header, [file.fileno()])
    return answer


@pytest.fixture
async def zygote() -> AsyncIterator[ZygoteProcess]:
    """A zygote of this test's own."""
    started = await ZygoteProcess.start()
    yield started
    await started.stop()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_zygote() -> AsyncIterator[ZygoteProcess]:
    """A zygote of a module's tests that only fork from it; they run on the module's event loop."""
    started = await ZygoteProcess.start()
    yield started
    await started.stop()


@pytest_asyncio.fixture(loop_scope="module")
async def worker(shared_zygote: ZygoteProcess) -> AsyncIterator[Peer]:
    """A worker without a model."""
    _, peer = await shared_zygote.fork()
    yield peer
    await peer.close()


@pytest.fixture
def loaded(worker: Peer, tmp_path: Path) -> Callable[..., Any]:
    """`await loaded(module)`: the module in the worker; `sources` as {path in the zip: text}."""

    async def put(module: Any, digest: str = "d1", sources: bytes = b"") -> Model:
        answer = await load(worker, write_package(tmp_path, module, digest, sources), digest)
        assert answer["ok"], answer
        return Model(worker, digest)

    return put
