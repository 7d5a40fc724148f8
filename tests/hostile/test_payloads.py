"""What comes as tensors, packages and frames is measured before it is believed, at the door and in the worker."""

from __future__ import annotations

import dataclasses
import io
import json
import os
import pickle
import zipfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import pytest_asyncio
import torch

from gpu_manager.worker.sharing import package, payload
from tests.node_rig.models import Package, call_payload, pack
from tests.node_rig.rig import Client, Rig

pytestmark = [pytest.mark.live, pytest.mark.timeout(120), pytest.mark.asyncio(loop_scope="module")]
A, B = "alpha.openfaas-fn@1", "beta.openfaas-fn@1"
HUGE = 1 << 62


@dataclasses.dataclass
class Door:
    """A node with one slice, and a model of each of two functions."""

    rig: Rig
    client: Client
    mine: Package
    theirs: Package

    async def infer(self, layout: Any, content: bytes, **more: Any) -> dict[str, Any]:
        """One call with this layout and these bytes."""
        fd = os.memfd_create("hostile")
        os.write(fd, content)
        header = {
            "op": "infer", "binding": self.rig.token(A), "model": self.mine.model.digest, "method": "forward",
            "batch": 1, "bytes": len(content), "layout": layout, "deadline_s": 20.0, **more,
        }  # fmt: skip
        try:
            return await self.client.ask(header, [fd])
        finally:
            os.close(fd)

    async def unharmed(self) -> None:
        """Both functions answer, in workers that live."""
        x = torch.ones(1, 4)
        for worker, one in ((A, self.mine), (B, self.theirs)):
            answer = await self.client.infer(self.rig.token(worker), one, x)
            assert answer["ok"], answer


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def door(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Door]:
    rig = Rig(tmp_path_factory.mktemp("payloads"))
    await rig.node(slices="1x1g:256MiB", max_payload_bytes=16 << 20)
    client = await rig.client()
    mine, theirs = pack(torch.nn.Linear(4, 4), A), pack(torch.nn.Linear(4, 4), B)
    for one in (mine, theirs):
        assert (await client.put(one))["ok"]
    opened = Door(rig, client, mine, theirs)
    await opened.unharmed()
    yield opened
    await rig.close()


@pytest_asyncio.fixture(loop_scope="module", autouse=True)
async def looked_at(door: Door) -> AsyncIterator[None]:
    """Descriptors and processes of the node are as many after a test as before it."""
    process = psutil.Process(door.rig.nodes["n"].process.pid)  # type: ignore[union-attr]
    before = process.num_fds(), process.memory_info().rss
    yield
    await door.unharmed()
    assert process.num_fds() <= before[0] + 4  # a worker that was replaced has its own
    assert process.memory_info().rss < before[1] + (32 << 20)
    counts = (await door.rig.status())["slices"][0]["counts"]
    assert counts["calls"] == counts["loads"] == 0


def arguments() -> tuple[dict[str, Any], bytes]:
    layout, size, fd = call_payload(torch.ones(1, 4))
    content = os.pread(fd, size, 0)
    os.close(fd)
    return layout, content


TENSORS = {
    "shapes that multiply beyond the payload": ["float32", [HUGE, HUGE], 64, 16],
    "a tensor larger than all memory": ["float32", [1 << 40], 64, 4 << 40],
    "a negative extent": ["float32", [-1, -4], 64, 16],
    "extents that wrap around": ["float32", [1 << 32, 1 << 32], 64, 0],
    "a negative offset": ["float32", [1, 4], -64, 16],
    "an offset beyond the end": ["float32", [1, 4], 1 << 40, 16],
    "more bytes than there are": ["float32", [1024], 64, 4096],
    "fewer bytes than the shape": ["float32", [1, 4], 64, 1],
    "an unknown dtype": ["float1024", [1, 4], 64, 16],
    "a dtype that is a function": ["load", [1, 4], 64, 16],
    "a dtype that is a number": [7, [1, 4], 64, 16],
    "no numbers": ["float32", ["a", None], "b", {}],
    "a fraction": ["float32", [0.5], 64, 16],
    "infinity": ["float32", [float("1e308")], 64, 16],
    "nothing of a huge shape": ["float32", [0, HUGE, HUGE], 64, 0],
    "too few fields": ["float32", [1, 4]],
    "no list": "float32",
}


@pytest.mark.parametrize("entry", TENSORS.values(), ids=TENSORS)
async def test_a_layout_that_lies_is_refused_and_its_worker_lives(door: Door, entry: Any) -> None:
    layout, content = arguments()
    before = (await door.rig.workers())[A]["pid"]
    answer = await door.infer({**layout, "tensors": [entry]}, content)
    assert not answer["ok"]
    assert answer["error"]["code"] in ("bad_request", "internal", "model_failed"), answer
    assert answer["error"]["message"]
    assert (await door.rig.workers())[A]["pid"] == before


LAYOUTS = {
    "none": None,
    "a number": 7,
    "a list": [],
    "no tensors": {"blob": 10},
    "no blob": {"tensors": []},
    "a negative blob": {"blob": -1, "tensors": []},
    "a blob beyond the end": {"blob": 1 << 40, "tensors": []},
    "half a blob": {"blob": 3, "tensors": []},
    "a text as blob": {"blob": "x", "tensors": []},
    "a million tensors": {"blob": 10, "tensors": [["float32", [0], 0, 0]] * 4000},
}


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
async def test_a_layout_that_is_none_is_refused(door: Door, layout: Any) -> None:
    _, content = arguments()
    answer = await door.infer(layout, content)
    assert not answer["ok"]
    assert answer["error"]["message"]


async def test_overlapping_tensors_are_the_callers_own_business(door: Door) -> None:
    """They are private copies of bytes that the caller sent: writing to one reaches nobody."""
    layout, content = arguments()
    entry = layout["tensors"][0]
    answer = await door.infer({**layout, "tensors": [entry, entry, entry]}, content)
    assert answer["ok"], answer


NUMBERS = [float("inf"), "x", [1], {"a": 1}, -1e300, True]


@pytest.mark.parametrize("field", ["bytes", "batch", "deadline_s", "id", "model", "method", "binding"])
@pytest.mark.parametrize("value", NUMBERS, ids=repr)
async def test_fields_of_a_wrong_kind_leave_nothing_behind(door: Door, field: str, value: Any) -> None:
    if field == "id" and isinstance(value, (list, dict)):
        pytest.skip("the client of these tests finds answers by it")
    layout, content = arguments()
    if value == float("inf"):
        if field == "id":
            pytest.skip("no JSON number")
        value = 10**400
    answer = await door.infer(layout, content, **{field: value})
    assert answer["ok"] or answer["error"]["message"]


async def test_a_payload_that_is_no_file_or_shrinks_or_is_sparse(door: Door) -> None:
    layout, content = arguments()
    header = {
        "op": "infer", "binding": door.rig.token(A), "model": door.mine.model.digest, "method": "forward", "batch": 1,
        "bytes": 10, "layout": layout, "deadline_s": 20.0,
    }  # fmt: skip
    reading, writing = os.pipe()
    sparse = os.memfd_create("sparse")
    os.truncate(sparse, 1 << 40)
    for fds in ([reading], [], [reading, writing, sparse]):
        assert (await door.client.ask(dict(header), fds))["error"]["code"] == "bad_request"
    assert (await door.client.ask(dict(header), [sparse]))["error"]["code"] == "body_too_large"
    for fd in (reading, writing, sparse):
        os.close(fd)
    # One that is cut while its worker has it mapped ends that worker, and nobody else.
    big = os.memfd_create("shrinking")
    os.write(big, content)
    os.truncate(big, 8 << 20)
    answer = await door.client.send(dict(header), [big])
    os.truncate(big, 0)
    os.close(big)
    told, _ = await answer
    assert "message" in told.get("error", {"message": ""})


async def test_another_functions_model_is_not_had_by_its_digest(door: Door) -> None:
    mine = await door.rig.client("alpha.openfaas-fn")
    only_theirs = pack(torch.nn.Linear(5, 5), B)
    assert (await door.client.put(only_theirs))["ok"]
    x = torch.ones(1, 5)
    stolen = await mine.infer(door.rig.token(A), only_theirs, x)
    assert stolen["error"]["code"] in ("not_found", "unavailable")
    assert (await mine.infer(door.rig.token(B), only_theirs, x))["error"]["code"] == "forbidden"
    assert (await mine.put(only_theirs))["error"]["code"] == "forbidden"
    digest = only_theirs.model.digest
    assert (await mine.ask({"op": "probe", "digests": [digest], "function": "beta.openfaas-fn"}))["missing"] == [digest]


DIGESTS = ["../../x", "/etc/passwd", "..", "", "a" * 200, "x\0y/zzzzzzzz", ".hidden-digest", "a/b/c/d/e/f/g/h"]


@pytest.mark.parametrize("digest", DIGESTS)
async def test_a_digest_leads_nowhere_else(door: Door, digest: str) -> None:
    model = dataclasses.replace(door.mine.model, digest=digest)
    assert (await door.client.put(Package(model, door.mine.fd)))["error"]["code"] == "bad_digest"
    answer = await door.client.infer(door.rig.token(A), Package(model, door.mine.fd), torch.ones(1, 4))
    assert answer["error"]["code"] in ("not_found", "unavailable", "bad_digest")


@pytest.mark.parametrize("worker", ["../../../x@1", "a/b.ns@1", "..@1", "x", "@", ".@1", "a.b/../c@1"])
async def test_a_workers_key_leads_nowhere_else(door: Door, worker: str, tmp_path: Path) -> None:
    model = dataclasses.replace(door.mine.model, worker=worker)
    before = {str(path) for path in door.rig.folder.rglob("*") if "/proc/" not in str(path)}
    answer = await door.client.put(Package(model, door.mine.fd))
    assert not answer["ok"], answer
    assert {str(path) for path in door.rig.folder.rglob("*")} <= before


# ------------------------------------------------------------------ packages


class Run:
    """Unpickles into a call."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __reduce__(self) -> Any:
        return exec, (self.text,)


def repacked(original: Package, **changed: Any) -> Package:
    """The package with other sections: `skeleton` and `sources` as bytes, or fields of the manifest."""
    manifest, _ = package.read_manifest(original.fd)
    skeleton, sources = changed.pop("skeleton", b""), changed.pop("sources", b"")
    fd, size = package.write({**manifest, **changed}, skeleton, sources, [])
    return Package(dataclasses.replace(original.model, package_bytes=size), fd)


async def test_a_hostile_skeleton_runs_in_its_own_worker_only(door: Door) -> None:
    """A package is code: what it does, it does as its function's user, without network, in its own worker."""
    mark = "/var/lib/slicewise-hostile-mark"
    text = f"open({mark!r}, 'w').write('x')"
    hostile = repacked(pack(torch.nn.Linear(4, 4), A), skeleton=pickle.dumps(Run(text)), tensors=[])
    manifest, _ = package.read_manifest(hostile.fd)
    assert manifest["digest"] == hostile.model.digest
    stored = await door.client.put(hostile)
    if stored["ok"]:
        uid = 54321 if os.geteuid() == 0 else 0
        token = door.rig.token(A, uid=uid)
        answer = await door.client.infer(token, hostile, torch.ones(1, 4))
        await door.client.ask({"op": "end", "binding": token})
        assert not answer["ok"]
    assert os.geteuid() != 0 or not os.access(mark, os.F_OK)


def bomb() -> bytes:
    """A zip of some hundred kilobytes that unpacks to gigabytes."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for number in range(4):
            with archive.open(f"bomb{number}.py", "w", force_zip64=True) as entry:
                for _ in range(256):
                    entry.write(b"#" * (1 << 20))
    return file.getvalue()


async def test_an_archive_bomb_is_not_unpacked(door: Door) -> None:
    module = torch.nn.Linear(6, 6)
    one = pack(module, A)
    manifest, start = package.read_manifest(one.fd)
    offset, size = manifest["skeleton"]
    skeleton = os.pread(one.fd, size, start + offset)
    table = package.skeleton_of(module)[1].dense()
    fd, total = package.write(manifest, skeleton, bomb(), table)
    armed = Package(dataclasses.replace(one.model, package_bytes=total), fd)
    stored = await door.client.put(armed)
    if stored["ok"]:
        token = door.rig.token(A)
        answer = await door.client.infer(token, armed, torch.ones(1, 6))
        await door.client.ask({"op": "end", "binding": token})
        assert not answer["ok"]
        assert answer["error"]["code"] == "model_failed", answer
        assert "unpack" in answer["error"]["message"]


MANIFESTS: dict[str, bytes] = {
    "nothing": b"",
    "a length beyond the end": (1 << 60).to_bytes(8, "little") + b"{}",
    "no JSON": (4).to_bytes(8, "little") + b"abcd",
    "a list": (2).to_bytes(8, "little") + b"[]",
    "brackets": (200_000).to_bytes(8, "little") + b"[" * 200_000,
    "a pickle": pickle.dumps(Run("raise SystemExit")),
}


@pytest.mark.parametrize("content", MANIFESTS.values(), ids=MANIFESTS)
async def test_what_is_no_package_is_refused_by_name(door: Door, content: bytes) -> None:
    fd = os.memfd_create("package")
    os.write(fd, content)
    model = dataclasses.replace(door.mine.model, digest="0" * 64, package_bytes=len(content))
    answer = await door.client.put(Package(model, fd))
    os.close(fd)
    assert answer["error"]["code"] in ("bad_digest", "bad_request"), answer


@pytest.mark.parametrize("field", ["skeleton", "sources", "tensors"])
@pytest.mark.parametrize("place", [[-64, 100], [0, HUGE], [HUGE, 1], ["a", "b"], None, [0]], ids=repr)
async def test_sections_that_lie_elsewhere_are_refused(door: Door, field: str, place: Any) -> None:
    manifest, start = package.read_manifest(door.mine.fd)
    lying = {**manifest, "digest": manifest["digest"], field: place if field != "tensors" else [place]}
    head = json.dumps(lying).encode()
    size = os.fstat(door.mine.fd).st_size
    rest = os.pread(door.mine.fd, size - start, start)
    fd = os.memfd_create("package")
    content = len(head).to_bytes(8, "little") + head
    content += bytes(payload.aligned(len(content)) - len(content)) + rest
    os.write(fd, content)
    worker = "gamma.openfaas-fn@1"
    model = dataclasses.replace(door.mine.model, worker=worker, package_bytes=len(content))
    answer = await door.client.put(Package(model, fd))
    os.close(fd)
    assert answer["error"]["code"] == "bad_digest", answer
