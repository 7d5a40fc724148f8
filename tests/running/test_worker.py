"""A worker runs what it loaded, isolated, within its limit, and gives its state back."""

from __future__ import annotations

import asyncio
import io
import os
import tempfile
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch

from tests.running.conftest import Model, load, write_package
from tests.running.spy import Counter, Spy
from tests.running.stand_in import UID, Peer, ZygoteProcess

pytestmark = pytest.mark.asyncio(loop_scope="module")

MIB = 1 << 20


def _sources() -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("tests/__init__.py", "")
        archive.writestr("tests/running/__init__.py", "")
        archive.writestr("tests/running/spy.py", Path(__file__).with_name("spy.py").read_text())
    return out.getvalue()


async def test_numbers_are_those_of_a_local_run(loaded: Callable[..., Any]) -> None:
    module = torch.nn.Sequential(torch.nn.Linear(8, 4), torch.nn.BatchNorm1d(4)).eval()
    model = await loaded(module)
    given = torch.randn(5, 8)
    answer, value = await model.infer("forward", given)
    assert torch.equal(value, module(given))
    assert answer["state"] is False
    assert answer["infer_s"] > 0
    assert not value.requires_grad


async def test_a_worker_sees_nothing_of_the_node(loaded: Callable[..., Any]) -> None:
    model = await loaded(Spy(), sources=_sources())
    _, seen = await model.infer("forward")
    assert seen["ours"] == []
    assert seen["environment"] == []
    assert seen["threads"] == 1
    sockets = [target for target in seen["descriptors"] if target.startswith("socket:")]
    assert len(sockets) == 1
    if os.geteuid() == 0:
        assert seen["uid"] == UID
        assert seen["groups"] == []
        assert seen["network"] == "Network is unreachable"
        assert seen["interfaces"] == ["lo"]
        assert not any(name.startswith("pytest") for name in seen["tmp"])


@pytest.mark.skipif(os.geteuid() != 0, reason="without root a worker sees what its user does")
@pytest.mark.parametrize("above", ["/tmp", "/var/tmp", "/var/lib"])
async def test_what_an_order_names_is_reached_in_closed_folders_and_nothing_beside_it(
    shared_zygote: ZygoteProcess, tmp_path: Path, above: str
) -> None:
    with tempfile.TemporaryDirectory(dir=above) as closed:
        library, secret = _furnish(Path(closed))
        _, peer = await shared_zygote.fork(sys_path=[str(library)])
        await load(peer, write_package(tmp_path, Spy(), "d1", _sources()), "d1")
        _, found = await Model(peer, "d1").infer("look", "brought_along", str(secret))
        assert found == ["found", "No such file or directory"]
        await peer.close()


def _furnish(closed: Path) -> tuple[Path, Path]:
    library, secret = closed / "library", closed / "secret"
    library.mkdir()
    (library / "brought_along.py").write_text("WORD = 'found'")
    secret.write_text("secret")
    return library, secret


async def test_a_spare_that_was_killed_is_replaced(shared_zygote: ZygoteProcess) -> None:
    killed = await asyncio.to_thread(_kill_spare, shared_zygote.process.pid)
    answer, peer = await shared_zygote.fork()
    assert answer["pid"] != killed
    assert (await peer.ask({"op": "held"}))[0]["ok"]
    await peer.close()


def _kill_spare(zygote: int) -> int:
    """Once the zygote has a spare, kill it and wait for its end; its pid."""
    for _ in range(2000):
        spares = [child for child in psutil.Process(zygote).children() if child.name() == "sw:spare"]
        if spares:
            spares[0].kill()
            spares[0].wait(20)
            return int(spares[0].pid)
        time.sleep(0.01)
    raise AssertionError("the zygote makes no spare")


async def test_errors_of_a_model_leave_its_worker_alive(loaded: Callable[..., Any]) -> None:
    model = await loaded(Spy(), sources=_sources())
    answer, _ = await model.infer("fail", "value")
    assert answer["error"]["code"] == "model_failed"
    assert answer["exception"]["type"] == "ValueError"
    assert answer["exception"]["text"] == "no such value"
    assert "raise {" in answer["exception"]["traceback"]
    answer, _ = await model.infer("fail", "exit")
    assert answer["exception"]["type"] == "SystemExit"
    answer, value = await model.infer("spend", 3)
    assert value.item() == 3


async def test_a_load_beyond_the_limit_says_what_it_needs(worker: Peer, tmp_path: Path) -> None:
    path = write_package(tmp_path, torch.nn.Linear(4096, 4096), "big")
    answer = await load(worker, path, "big", limit_bytes=32 * MIB)
    assert answer["error"]["code"] == "overrun"
    assert answer["needed_bytes"] >= 64 * MIB


async def test_a_call_beyond_the_limit_fails_and_the_worker_stays(worker: Peer, tmp_path: Path) -> None:
    path = write_package(tmp_path, Spy(), "d1", _sources())
    assert (await load(worker, path, "d1", limit_bytes=128 * MIB))["ok"]
    model = Model(worker, "d1")
    answer, _ = await model.infer("spend", 256 * MIB)
    assert answer["error"]["code"] == "overrun"
    assert answer["needed_bytes"] >= 1024 * MIB
    answer, value = await model.infer("spend", 7)
    assert value.item() == 7


async def test_held_bytes_count_the_weights_in_full(shared_zygote: ZygoteProcess, tmp_path: Path) -> None:
    path = write_package(tmp_path, torch.nn.Linear(4096, 4096), "d1")
    for _ in range(2):
        _, peer = await shared_zygote.fork()
        empty, _ = await peer.ask({"op": "held"})
        answer = await load(peer, path, "d1")
        grown = answer["held_bytes"] - empty["held_bytes"]
        assert 64 * MIB <= grown < 96 * MIB
        assert empty["held_bytes"] < 48 * MIB
        await peer.close()


HOW = ("buffer", "replace", "list", "attribute", "new", "nested", "weight")


@pytest.mark.parametrize("how", HOW)
async def test_state_lives_until_reset(loaded: Callable[..., Any], how: str) -> None:
    model = await loaded(Counter(), sources=_sources())
    answer, untouched = await model.infer("forward", "nothing")
    assert answer["state"] is False
    answer, changed = await model.infer("forward", how)
    assert answer["state"] is True
    answer, again = await model.infer("forward", "nothing")
    assert answer["state"] is True
    assert str(again) == str(changed) != str(untouched)
    await model.peer.ask({"op": "reset"})
    answer, restored = await model.infer("forward", "nothing")
    assert answer["state"] is False
    assert str(restored) == str(untouched)


async def test_emulated_times_are_kept(worker: Peer, tmp_path: Path) -> None:
    path = write_package(tmp_path, torch.nn.Linear(2, 2), "d1")
    started = time.monotonic()
    answer = await load(worker, path, "d1", at_least_s=0.3)
    assert time.monotonic() - started >= 0.3
    assert answer["load_s"] >= 0.3
    started = time.monotonic()
    answer, _ = await Model(worker, "d1").infer("forward", torch.ones(2), at_least_s=0.2)
    assert time.monotonic() - started >= 0.2
    assert answer["infer_s"] >= 0.2


async def test_packages_that_are_not_what_they_say_are_refused(worker: Peer, tmp_path: Path) -> None:
    path = write_package(tmp_path, torch.nn.Linear(2, 2), "d1")
    answer = await load(worker, path, "d2")
    assert answer["error"]["code"] == "bad_digest"
    data = bytearray(path.read_bytes())
    start = 8 + int.from_bytes(data[:8], "little") + 64
    data[start + 40] ^= 1
    path.write_bytes(data)
    answer = await load(worker, path, "d1")
    assert answer["error"]["code"] == "bad_digest"
    path.write_bytes(b"")
    answer = await load(worker, path, "d1")
    assert answer["error"]["code"] == "bad_digest"


async def test_a_model_that_is_not_there_is_named(worker: Peer) -> None:
    answer, _ = await Model(worker, "nowhere").infer("forward", torch.ones(1))
    assert answer["error"]["code"] == "not_ready"
    assert "nowhere" in answer["error"]["message"]


async def test_several_models_live_in_one_worker(loaded: Callable[..., Any]) -> None:
    first, second = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)
    given = torch.ones(1, 2)
    one = await loaded(first, "d1")
    two = await loaded(second, "d2")
    assert torch.equal((await one.infer("forward", given))[1], first(given))
    assert torch.equal((await two.infer("forward", given))[1], second(given))


async def test_tied_and_viewed_tensors_stay_so(loaded: Callable[..., Any]) -> None:
    module = torch.nn.Sequential(torch.nn.Linear(4, 4, bias=False), torch.nn.Linear(4, 4, bias=False))
    module[1].weight = module[0].weight
    module.register_buffer("view", module[0].weight.detach()[1:3].t())
    model = await loaded(module)
    _, values = await model.infer("$read", ["0.weight", "1.weight", "view"])
    assert torch.equal(values[0], values[1])
    assert torch.equal(values[2], module.view)
    answer = await model.peer.ask({"op": "held"})
    assert answer[0]["ok"]


async def test_models_that_say_cuda_run_on_a_cpu_slice(loaded: Callable[..., Any]) -> None:
    source = "import torch\nclass Cuda(torch.nn.Module):\n    def forward(self, x):\n"
    source += "        return x.cuda() + torch.ones(2, device='cuda') * torch.cuda.device_count()\n"
    namespace: dict[str, Any] = {"__name__": "says_cuda"}
    exec(source, namespace)
    import sys
    import types

    sys.modules["says_cuda"] = module = types.ModuleType("says_cuda")
    module.__dict__.update(namespace)
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("says_cuda.py", source)
    model = await loaded(namespace["Cuda"](), sources=out.getvalue())
    del sys.modules["says_cuda"]
    _, value = await model.infer("forward", torch.ones(2))
    assert value.tolist() == [2.0, 2.0]
