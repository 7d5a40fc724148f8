"""The processes whose times are compared with Slicewise's: each waits for its turn and says what it took.

`Side(ROLE, ...)` starts `python -m benchmarks.sides ROLE ...`; every `turn` is one line to it and one back, so that
two sides can be measured one after the other, again and again, under the same load of the machine.
"""

from __future__ import annotations

import array
import importlib.util
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace, TracebackType
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
Turn = Callable[[dict[str, Any]], dict[str, Any]]


class Side:
    """One process, killed at the end of the `with`."""

    def __init__(self, role: str, *arguments: str, environment: Mapping[str, str] | None = None) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.sides", role, *arguments],
            cwd=ROOT,
            env={**os.environ, **(environment or {})},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Side:
        self.ready = self._read()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.communicate()

    def turn(self, **what: Any) -> dict[str, Any]:
        """Have it do something; its word on it."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(what) + "\n")
        self._process.stdin.flush()
        return self._read()

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self._process.args!r} ended")
        return dict(json.loads(line))


def loop() -> tuple[dict[str, Any], Turn]:
    """A CPU-bound loop of torch that never says "cuda": draws, multiplies, converts, sums; and torch's import.

    A turn is `count` rounds of `layers` products; the fewer, the more of a round are calls that interposition wraps.
    """
    began, spent = time.perf_counter(), time.process_time()
    import torch

    ready = {"seconds": time.perf_counter() - began, "cpu_s": time.process_time() - spent}
    torch.set_num_threads(1)
    weights = torch.randn(256, 256) / 16

    def turn(what: dict[str, Any]) -> dict[str, Any]:
        began, spent, total = time.perf_counter(), time.process_time(), 0.0
        for _ in range(what["count"]):
            hidden = torch.randn(64, 256)
            for _ in range(what["layers"]):
                hidden = torch.relu(hidden @ weights)
            total += float(hidden.to(torch.float64).sum())
        return {"seconds": time.perf_counter() - began, "cpu_s": time.process_time() - spent, "total": total}

    return ready, turn


def activation() -> tuple[dict[str, Any], Turn]:
    """What switching interposition on costs a process that has torch: as in a replica, which is forked with it."""
    import torch  # noqa: F401

    def turn(_what: dict[str, Any]) -> dict[str, Any]:
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            sys.path.insert(0, str(ROOT / "functions" / "runtime"))
            os.environ.update(SLICEWISE_GPU="1", SLICEWISE_SOCKET="/nowhere")
            began, spent = time.perf_counter(), time.process_time()
            importlib.import_module("_slicewise").activate()
            took = {"seconds": time.perf_counter() - began, "cpu_s": time.process_time() - spent}
            os.write(writing, json.dumps(took).encode())
            os._exit(0)
        os.close(writing)
        os.waitpid(child, 0)
        with os.fdopen(reading) as pipe:
            return dict(json.load(pipe))

    return {}, turn


def handler(path: str, body: str) -> tuple[dict[str, Any], Turn]:
    """A handler in a process of its own, without Slicewise, on one thread of the CPU."""
    import torch

    torch.set_num_threads(1)
    torch.nn.Module.to = lambda self, *arguments, **keywords: self
    spec = importlib.util.spec_from_file_location("handler", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    event = SimpleNamespace(body=Path(body).read_bytes(), query={}, headers={}, method="POST", path="/")

    def turn(_what: dict[str, Any]) -> dict[str, Any]:
        began = time.perf_counter()
        answer = module.handle(event, None)
        return {"seconds": time.perf_counter() - began, "body": answer["body"]}

    return {}, turn


def shared_memory(size: str) -> tuple[dict[str, Any], Turn]:
    """SIZE bytes to another process and as many back: one copy into a memfd, one out of it, each way."""
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    data = os.urandom(int(size))
    if os.fork() == 0:
        here.close()
        while (received := _receive(there, len(data))) is not None:
            _send(there, received)
        os._exit(0)
    there.close()

    def turn(what: dict[str, Any]) -> dict[str, Any]:
        began = time.perf_counter()
        for _ in range(what["count"]):
            _send(here, data)
            received = _receive(here, len(data))
        seconds = time.perf_counter() - began
        if bytes(received or b"") != data:
            raise RuntimeError("other bytes came back")
        return {"seconds": seconds}

    return {}, turn


def _send(sock: socket.socket, data: bytes | bytearray) -> None:
    fd = os.memfd_create("bare", os.MFD_CLOEXEC)
    try:
        os.write(fd, data)
        sock.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [fd]))])
    finally:
        os.close(fd)


def _receive(sock: socket.socket, size: int) -> bytearray | None:
    word, fds, _, _ = socket.recv_fds(sock, 1, 1)
    if not word:
        return None
    try:
        data = bytearray(size)
        os.preadv(fds[0], [data], 0)
        return data
    finally:
        os.close(fds[0])


ROLES: dict[str, Callable[..., tuple[dict[str, Any], Turn]]] = {
    "loop": loop,
    "activation": activation,
    "handler": handler,
    "shared_memory": shared_memory,
}


def main() -> None:
    """One role, a turn a line."""
    ready, turn = ROLES[sys.argv[1]](*sys.argv[2:])
    print(json.dumps(ready), flush=True)
    for line in sys.stdin:
        print(json.dumps(turn(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
