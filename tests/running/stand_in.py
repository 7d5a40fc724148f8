"""A broker and a door in one, as small as they can be: real sockets and a real zygote, no policy.

The runtime's frames arrive on a Unix socket; packages are kept as files; a call goes to the one worker
of this function, which is forked at its first call and reset when another token calls.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import socket
import sys
import threading
from pathlib import Path
from typing import Any

from proto.wire import frames

TIMEOUT_S = 60.0
UID = 12345


class Peer:
    """Requests with ids on one frame connection; what comes without an id is kept in `unasked`."""

    def __init__(self, connection: frames.FrameConnection) -> None:
        self.connection = connection
        self.unasked: asyncio.Queue[dict[str, Any]] = asyncio.Queue(100)
        self._ids = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[tuple[dict[str, Any], list[int]]]] = {}
        self._task = asyncio.create_task(self._read())

    async def _read(self) -> None:
        try:
            while True:
                header, fds = await self.connection.receive()
                waiter = self._waiting.pop(header.get("id", -1), None)
                if waiter is None:
                    self.unasked.put_nowait(header)
                else:
                    waiter.set_result((header, fds))
        except frames.FrameError as error:
            for waiter in self._waiting.values():
                waiter.set_exception(error)

    async def ask(self, header: dict[str, Any], fds: list[int] | None = None) -> tuple[dict[str, Any], list[int]]:
        """The answer to one request; raises FrameError when the peer goes away."""
        number = next(self._ids)
        self._waiting[number] = asyncio.get_running_loop().create_future()
        waiter = self._waiting[number]
        await self.connection.send({**header, "id": number}, fds)
        async with asyncio.timeout(TIMEOUT_S):
            return await waiter

    async def close(self) -> None:
        """Close the connection and wait for the reader."""
        self.connection.close()
        await asyncio.wait({self._task}, timeout=5)


class ZygoteProcess:
    """A real zygote and the workers forked from it."""

    def __init__(self, process: asyncio.subprocess.Process, peer: Peer) -> None:
        self.process = process
        self.peer = peer

    @classmethod
    async def start(cls) -> ZygoteProcess:
        """Start `python -m gpu_manager.worker`."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "gpu_manager.worker", "--socket-fd", str(theirs.fileno()), pass_fds=[theirs.fileno()]
        )
        theirs.close()
        return cls(process, Peer(frames.FrameConnection(ours)))

    async def fork(self, package_fd: int = -1, **order: Any) -> tuple[dict[str, Any], Peer]:
        """(the zygote's answer, the new worker), with the libraries of a package imported before if it is given."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        uid = UID if os.geteuid() == 0 else 0
        full = {"op": "fork", "key": "f.ns@1", "slice": "s0", "uid": uid, "gid": uid, "threads": 1, "cuda": ""}
        full.update({"sys_path": []}, **order)
        fds = [theirs.fileno()] if package_fd < 0 else [theirs.fileno(), package_fd]
        answer, _ = await self.peer.ask(full, fds)
        theirs.close()
        return answer, Peer(frames.FrameConnection(ours))

    async def stop(self) -> None:
        """Hang up and wait for its end."""
        await self.peer.close()
        async with asyncio.timeout(10):
            await self.process.wait()


class StandIn:
    """Serves one function's runtime on `socket_path`; everything the runtime said is in `said`."""

    def __init__(self, folder: Path) -> None:
        self.socket_path = str(folder / "runtime.sock")
        self.said: list[dict[str, Any]] = []
        self.states: list[bool] = []  # what each answered call said of its worker's state
        self._folder = folder
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="stand-in")
        self._connections: list[frames.FrameConnection] = []
        self._serving: set[asyncio.Task[None]] = set()
        self._zygote: ZygoteProcess | None = None
        self._worker: Peer | None = None
        self._loaded: set[str] = set()
        self._token = ""

    def __enter__(self) -> StandIn:
        self._thread.start()
        self._do(self._open())
        return self

    def __exit__(self, *_: object) -> None:
        self._do(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def _do(self, coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(TIMEOUT_S)

    async def _open(self) -> None:
        self._zygote = await ZygoteProcess.start()
        self._turn = asyncio.Lock()
        self._listener = frames.listen(self.socket_path)
        self._accepting = asyncio.create_task(self._accept())

    async def _close(self) -> None:
        self._accepting.cancel()
        self._listener.close()
        for connection in self._connections:
            connection.close()
        if self._serving:
            await asyncio.wait(self._serving, timeout=5)
        await self._drop_worker()
        assert self._zygote is not None
        await self._zygote.stop()

    async def _accept(self) -> None:
        while True:
            connection = await frames.accept(self._listener)
            self._connections.append(connection)
            task = asyncio.create_task(self._serve(connection))
            self._serving.add(task)

    async def _serve(self, connection: frames.FrameConnection) -> None:
        try:
            while True:
                header, fds = await connection.receive()
                self.said.append(header)
                answer, out = await self._answer(header, fds)
                frames.close_fds(fds)
                await connection.send({**answer, "id": header["id"]}, out)
                frames.close_fds(out)
        except frames.FrameError:
            connection.close()

    async def _answer(self, header: dict[str, Any], fds: list[int]) -> tuple[dict[str, Any], list[int]]:
        if header["op"] == "hello":
            return {"ok": True, "protocol": 1, "function": "f.ns", "gpu": True}, []
        if header["op"] == "register":
            package = self.package(header["model"]["digest"])
            if header.get("probe"):
                return {"ok": True, "needed": not package.exists()}, []
            package.write_bytes(os.pread(fds[0], os.fstat(fds[0]).st_size, 0))
            return {"ok": True, "stored": True}, []
        async with self._turn:
            return await self._infer(header, fds)

    async def _infer(self, header: dict[str, Any], fds: list[int]) -> tuple[dict[str, Any], list[int]]:
        assert self._zygote is not None
        digest = header["model"]
        if self._worker is None:
            with self.package(digest).open("rb") as file:
                _, self._worker = await self._zygote.fork(file.fileno())
        if digest not in self._loaded:
            manifest = next(s["model"] for s in self.said if s["op"] == "register" and s["model"]["digest"] == digest)
            with self.package(digest).open("rb") as file:
                load = {"op": "load", "digest": digest, "kind": manifest["kind"], "device": "cpu"}
                answer, _ = await self._worker.ask(load, [file.fileno()])
            if not answer["ok"]:
                return answer, []
            self._loaded.add(digest)
        if header["call"] != self._token:
            self._token = header["call"]
            await self._worker.ask({"op": "reset"})
        wanted = {key: header[key] for key in ("model", "method", "layout")}
        answer, out = await self._worker.ask({"op": "infer", **wanted}, fds)
        self.states.append(answer.get("state", False))
        phases = {"queue_s": 0.0, "load_s": 0.0, "infer_s": answer.get("infer_s", 0.0)}
        return {**answer, "phases": phases, "slice": "s0", "cache": "hit"}, out

    def start_anew(self) -> None:
        """Forget what was said, and give the next handler a worker of its own, as a new revision gets."""
        self.said.clear()
        self.states.clear()
        self._do(self._drop_worker())

    async def _drop_worker(self) -> None:
        worker, self._worker = self._worker, None
        self._loaded.clear()
        self._token = ""
        if worker is not None:
            await worker.close()

    def package(self, digest: str) -> Path:
        """Where a model's package is kept."""
        return self._folder / f"{digest}.package"

    def calls(self) -> list[dict[str, Any]]:
        """The infer frames that came."""
        return [header for header in self.said if header["op"] == "infer"]
