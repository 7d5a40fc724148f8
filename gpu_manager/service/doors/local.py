"""The data door for this node: frames on a Unix socket, tensors as descriptors that are passed on unread."""

from __future__ import annotations

import asyncio
import logging
import socket
from functools import partial
from pathlib import Path
from typing import Any

from gpu_manager.service.calls import failed
from gpu_manager.service.doors.session import Session, function_in
from gpu_manager.service.node import Node
from proto.types.errors import SlicewiseError
from proto.wire import frames, peers

_log = logging.getLogger(__name__)

PROTOCOL = 1
HELLO_TIMEOUT_S = 10.0
MAX_CONNECTIONS = 4096


class LocalDoor:
    """Accepts brokers of this node."""

    def __init__(self, node: Node, path: Path) -> None:
        self._node = node
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        self._listener: socket.socket = frames.listen(str(path))
        self._clients: set[asyncio.Task[None]] = set()
        self._task = asyncio.create_task(self._accept())

    async def _accept(self) -> None:
        while True:
            try:
                connection = await frames.accept(self._listener)
            except OSError as error:  # out of descriptors: those who wait keep waiting
                _log.error("the data door cannot accept: %s", error)
                await asyncio.sleep(0.1)
                continue
            if len(self._clients) >= MAX_CONNECTIONS:
                connection.close()
                continue
            task = asyncio.create_task(self._serve(connection))
            self._clients.add(task)
            task.add_done_callback(self._clients.discard)

    async def _serve(self, connection: frames.FrameConnection) -> None:
        session: Session | None = None
        try:
            async with asyncio.timeout(HELLO_TIMEOUT_S):
                session = await self._hello(connection)
            while session is not None:
                header, fds = await connection.receive()
                number = header.get("id")
                session.handle(header, fds, partial(self._reply, connection, number))
        except (frames.FrameError, TimeoutError):
            pass
        except Exception:
            _log.exception("a connection of the data door failed")
        finally:
            if session is not None:
                session.close()
            connection.close()

    async def _hello(self, connection: frames.FrameConnection) -> Session | None:
        header, fds = await connection.receive()
        frames.close_fds(fds)
        number = header.get("id")
        try:
            if header.get("op") != "hello":
                raise SlicewiseError("unauthorised", "The first thing to say here is hello.")
            if header.get("protocol") != PROTOCOL:
                raise SlicewiseError(
                    "bad_request", f"This node speaks protocol {PROTOCOL}, the caller {header.get('protocol')}."
                )
            subject = peers.verify_subject(self._node.trust, str(header.get("credential") or ""))
            session = Session(self._node, function_in(subject))
        except SlicewiseError as error:
            await connection.send({"id": number, **failed(error)})
            return None
        await connection.send({"id": number, "ok": True, "protocol": PROTOCOL, "node": self._node.settings.node})
        return session

    def _reply(self, connection: frames.FrameConnection, number: Any, header: dict[str, Any], fds: list[int]) -> None:
        task = asyncio.create_task(self._send(connection, {"id": number, **header}, fds))
        self._clients.add(task)
        task.add_done_callback(self._clients.discard)

    async def _send(self, connection: frames.FrameConnection, header: dict[str, Any], fds: list[int]) -> None:
        try:
            await connection.send(header, fds)
        except frames.FrameError as error:
            if connection.closed:
                return
            _log.warning("an answer did not fit a frame: %s", error)
            text = "The answer's description is larger than a frame."
            await connection.send({"id": header["id"], **failed(SlicewiseError("model_failed", text))})
        finally:
            frames.close_fds(fds)

    async def close(self) -> None:
        """Let nobody in any more and end all connections."""
        self._task.cancel()
        clients = list(self._clients)
        for task in clients:
            task.cancel()
        await asyncio.gather(self._task, *clients, return_exceptions=True)
        self._listener.close()
        self._path.unlink(missing_ok=True)
