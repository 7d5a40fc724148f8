"""The data door for other nodes (Door.Exchange) and the GPU manager's control, on one gRPC server.

One Exchange is one request and its answer: the header in the first chunk as on the Unix socket, the payload's
bytes in pieces, put into a memfd on arrival. Hanging up cancels the request.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
from collections.abc import AsyncIterator, Callable
from typing import Any

import grpc.aio

from gpu_manager.service import pulling
from gpu_manager.service.calls import failed
from gpu_manager.service.doors.session import Session, function_in, parse_header
from gpu_manager.service.node import Node
from gpu_manager.service.status import status
from proto.types.errors import SlicewiseError
from proto.wire import frames, peers, pieces
from proto.wire.generated import slicewise_pb2 as pb
from proto.wire.generated import slicewise_pb2_grpc as rpc

SPOKEN_BYTES = 64 * 1024
ALLOWED = {
    "Exchange": ("service:", "replica:"),
    "Pull": ("service:gpu_manager",),
}


class RemoteDoor(rpc.DoorServicer):  # type: ignore[misc]
    """Serves Door."""

    def __init__(self, node: Node) -> None:
        self._node = node

    async def Exchange(
        self, request_iterator: AsyncIterator[pb.Chunk], context: grpc.aio.ServicerContext
    ) -> AsyncIterator[pb.Chunk]:
        """One request and its answer."""
        fds: list[int] = []
        try:
            session = Session(self._node, function_in(peers.caller.get()))
            header = await self._receive(request_iterator, fds)
        except SlicewiseError as error:
            frames.close_fds(fds)
            yield pb.Chunk(header=json.dumps(failed(error)), last=True)
            return
        except BaseException:
            frames.close_fds(fds)
            raise
        header["id"] = 0
        answer: asyncio.Future[tuple[dict[str, Any], list[int]]] = asyncio.get_running_loop().create_future()

        def reply(head: dict[str, Any], fds: list[int]) -> None:
            if answer.done():
                frames.close_fds(fds)
            else:
                answer.set_result((head, fds))

        hearing = _hear(fds) if header.get("stream") else None
        session.handle(header, fds, reply)
        try:
            if hearing is not None:
                while spoken := await asyncio.get_running_loop().sock_recv(hearing, SPOKEN_BYTES):
                    yield pb.Chunk(spoken=spoken)
            head, result = await answer
            try:
                async for chunk in pieces.split(head, result, int(head.get("bytes") or 0) if result else 0):
                    yield chunk
            finally:
                frames.close_fds(result)
        finally:
            session.close()
            if hearing is not None:
                hearing.close()

    async def _receive(self, chunks: AsyncIterator[pb.Chunk], fds: list[int]) -> dict[str, Any]:
        header: dict[str, Any] | None = None
        size = 0
        limit = self._node.settings.max_payload_bytes
        async for chunk in chunks:
            if header is None:
                header = parse_header(chunk.header)
                if header.get("op") == "put":
                    limit = max(limit, int(header.get("bytes") or 0), _package_bytes(header))
            if chunk.data:
                size += len(chunk.data)
                if size > limit:
                    raise SlicewiseError("body_too_large", f"The request carries more than {limit} bytes.")
                if not fds:
                    fds.append(os.memfd_create("slicewise-payload", os.MFD_CLOEXEC))
                await pieces.append(fds[0], chunk.data)
            if chunk.last:
                return header
        raise SlicewiseError("body_cut", "The request ended before its last piece.")


def _hear(fds: list[int]) -> socket.socket:
    """Add the way to the caller's streamers to a request that has come without it; our end of it."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    fds.append(theirs.detach())
    return ours


def _package_bytes(header: dict[str, Any]) -> int:
    model = header.get("model")
    return int(model.get("package_bytes") or 0) if isinstance(model, dict) else 0


class Control(rpc.GpuManagerServicer):  # type: ignore[misc]
    """Serves GpuManager."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self.scheduler_connected: Callable[[], bool] = bool

    async def GetStatus(self, request: pb.Empty, context: grpc.aio.ServicerContext) -> pb.Json:
        """The node as it is, for `slicewise status`."""
        return pb.Json(text=json.dumps(status(self._node, self.scheduler_connected())))

    async def Pull(self, request: pb.PullRequest, context: grpc.aio.ServicerContext) -> AsyncIterator[pb.Chunk]:
        """A package for a peer."""
        async for chunk in pulling.serve(self._node.store, request):
            yield chunk
