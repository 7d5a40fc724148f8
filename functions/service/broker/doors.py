"""Ways to data doors: the Unix socket of this node's, gRPC to those of other nodes.

A local door is one persistent frame connection shared by all calls of the replica; descriptors pass
through untouched. A remote door gets the same header and the payload's bytes, one Exchange a request.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import random
import socket
import time
from typing import Any, Protocol

import grpc
import grpc.aio

from proto.types.errors import SlicewiseError
from proto.types.placing import Binding
from proto.wire import frames, peers, pieces
from proto.wire.generated import slicewise_pb2_grpc as rpc

Answer = tuple[frames.Header, list[int]]

PROTOCOL = 1
CONNECT_TIMEOUT_S = 2.0
FIRST_BACKOFF_S, MAX_BACKOFF_S = 0.05, 1.0
# A door keeps its deadlines itself; only one that went silent is met by ours, this much later.
GRACE_S = 2.0


def lost(what: str) -> SlicewiseError:
    """A door that cannot be reached, or went away during a call."""
    return SlicewiseError("slice_lost", what)


class Door(Protocol):
    """One node's data door."""

    async def ask(self, header: frames.Header, fds: list[int], timeout_s: float) -> Answer:
        """One request and its answer, ok or not; the caller closes the answer's descriptors.

        Raises SlicewiseError `slice_lost` when the door is gone, `deadline_in_call` after `timeout_s`.
        Cancelling the awaiting task takes the request back.
        """

    def tell(self, header: frames.Header) -> None:
        """A request whose answer nobody waits for; lost with the connection."""


class LocalDoor:
    """The door behind one Unix socket, connected when it is needed and again when it was lost."""

    def __init__(self, path: str, credential: str) -> None:
        self._path = path
        self._credential = credential
        self._ids = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[Answer]] = {}
        self._connection: frames.FrameConnection | None = None
        self._lock = asyncio.Lock()
        self._reader: asyncio.Task[None] | None = None
        self._backoff_s = FIRST_BACKOFF_S
        self._not_before = 0.0
        self._background: set[asyncio.Task[None]] = set()

    async def ask(self, header: frames.Header, fds: list[int], timeout_s: float) -> Answer:
        """As Door says."""
        connection = self._connection
        if connection is None or connection.closed:
            connection = await self._connect()
        number = next(self._ids)
        waiting: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting[number] = waiting
        answered = False
        try:
            await connection.send({**header, "id": number}, fds)
            async with asyncio.timeout(timeout_s + GRACE_S):
                answer = await waiting
            answered = True
            return answer
        except frames.FrameError as error:
            answered = True
            raise lost(f"The GPU manager went away during the call ({error}).") from error
        except TimeoutError as error:
            text = f"The slice did not answer within {timeout_s:.1f} s."
            raise SlicewiseError("deadline_in_call", text) from error
        finally:
            self._waiting.pop(number, None)
            if not answered:
                if waiting.done() and not waiting.cancelled() and waiting.exception() is None:
                    frames.close_fds(waiting.result()[1])
                self.tell({"op": "cancel", "target": number})

    def tell(self, header: frames.Header) -> None:
        """As Door says."""
        connection = self._connection
        if connection is None or connection.closed:
            return
        task = asyncio.ensure_future(self._send_quietly(connection, {**header, "id": next(self._ids)}))
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    async def _send_quietly(self, connection: frames.FrameConnection, header: frames.Header) -> None:
        with contextlib.suppress(frames.FrameError):
            await connection.send(header)

    async def _connect(self) -> frames.FrameConnection:
        async with self._lock:
            if self._connection is not None and not self._connection.closed:
                return self._connection
            now = time.monotonic()
            if now < self._not_before:
                await asyncio.sleep(self._not_before - now)
            try:
                connection = await frames.connect(self._path, CONNECT_TIMEOUT_S)
                hello = {"op": "hello", "id": 0, "protocol": PROTOCOL, "credential": self._credential}
                await connection.send(hello)
                async with asyncio.timeout(CONNECT_TIMEOUT_S):
                    answer, fds = await connection.receive()
                frames.close_fds(fds)
            except (frames.FrameError, TimeoutError) as error:
                self._not_before = time.monotonic() + self._backoff_s * random.uniform(0.5, 1.0)
                self._backoff_s = min(MAX_BACKOFF_S, self._backoff_s * 2)
                raise lost(f"The GPU manager of this node cannot be reached ({error}).") from error
            if not answer.get("ok"):
                connection.close()
                raise failure_of(answer)
            self._backoff_s = FIRST_BACKOFF_S
            self._connection = connection
            self._reader = asyncio.create_task(self._read(connection), name=f"door {self._path}")
            return connection

    async def _read(self, connection: frames.FrameConnection) -> None:
        try:
            while True:
                header, fds = await connection.receive()
                waiting = self._waiting.get(header.get("id", -1))
                if waiting is None or waiting.done():
                    frames.close_fds(fds)
                else:
                    waiting.set_result((header, fds))
        except frames.FrameError as error:
            connection.close()
            for waiting in self._waiting.values():
                if not waiting.done():
                    waiting.set_exception(error)


class RemoteDoor:
    """The door of another node, at host:port."""

    def __init__(self, address: str, credential: str) -> None:
        self._channel = peers.channel(address)
        self._stub = rpc.DoorStub(self._channel)
        self._metadata = peers.metadata(credential)
        self._background: set[asyncio.Task[None]] = set()

    async def ask(self, header: frames.Header, fds: list[int], timeout_s: float) -> Answer:
        """As Door says; the answer's payload is a fresh memfd."""
        size = os.fstat(fds[0]).st_size if fds else 0
        request = pieces.split(header, fds, size)
        call = self._stub.Exchange(request, metadata=self._metadata, timeout=timeout_s + GRACE_S)
        answer: frames.Header | None = None
        payload = -1
        speaking = _speaking(fds)
        try:
            async for chunk in call:
                if chunk.spoken:
                    if speaking is not None:
                        await asyncio.get_running_loop().sock_sendall(speaking, chunk.spoken)
                    continue
                if answer is None:
                    answer = frames.decode(chunk.header.encode())
                if chunk.data:
                    if payload < 0:
                        payload = os.memfd_create("slicewise-answer", os.MFD_CLOEXEC)
                    await pieces.append(payload, chunk.data)
            if answer is None:
                raise lost("The other node's GPU manager ended the call without an answer.")
        except grpc.aio.AioRpcError as error:
            _close(payload)
            if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
                text = f"The slice did not answer within {timeout_s:.1f} s."
                raise SlicewiseError("deadline_in_call", text) from error
            raise lost(f"The other node's GPU manager went away during the call ({error.details()}).") from error
        except BaseException:
            call.cancel()
            _close(payload)
            raise
        finally:
            if speaking is not None:
                speaking.close()
        return answer, [payload] if payload >= 0 else []

    def tell(self, header: frames.Header) -> None:
        """As Door says."""
        task = asyncio.ensure_future(self._ask_quietly(header))
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    async def _ask_quietly(self, header: frames.Header) -> None:
        with contextlib.suppress(SlicewiseError):
            _, fds = await self.ask(header, [], peers.CALL_TIMEOUT_S)
            frames.close_fds(fds)


class Doors:
    """The doors that this replica has met, by where a binding points."""

    def __init__(self, node: str, door_path: str, credential: str) -> None:
        self._node = node
        self._door_path = door_path
        self._credential = credential
        self._doors: dict[str, Door] = {}

    def of(self, binding: Binding) -> Door:
        """The door of the binding's node."""
        if binding.node == self._node and (binding.door_path or self._door_path):
            return self._local(binding.door_path or self._door_path)
        if binding.door_address not in self._doors:
            self._doors[binding.door_address] = RemoteDoor(binding.door_address, self._credential)
        return self._doors[binding.door_address]

    def here(self) -> Door | None:
        """This node's own door, None where there is no GPU manager."""
        return self._local(self._door_path) if self._door_path else None

    def _local(self, path: str) -> Door:
        if path not in self._doors:
            self._doors[path] = LocalDoor(path, self._credential)
        return self._doors[path]


def failure_of(answer: frames.Header) -> SlicewiseError:
    """The error inside an answer that is not ok."""
    error: dict[str, Any] = answer.get("error") or {}
    message = str(error.get("message") or "The slice gave no reason.")
    return SlicewiseError(str(error.get("code") or "internal"), message, error.get("retry_after_s"))


def _speaking(fds: list[int]) -> socket.socket | None:
    """The way to the caller's streamers, if the request brings one."""
    if len(fds) < 2:
        return None
    way = socket.socket(fileno=os.dup(fds[1]))
    way.setblocking(False)
    return way


def _close(descriptor: int) -> None:
    if descriptor >= 0:
        os.close(descriptor)
