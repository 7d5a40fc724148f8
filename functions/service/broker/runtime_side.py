"""The Unix socket to which the runtime in the function's processes speaks: hello, note, register, infer.

Only the function's own uid may connect. Each request is a task, so one that waits for a slice holds up
nobody; when a process goes, what it asked for is taken back.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from typing import Any

import grpc
import grpc.aio

from functions.service.broker.doors import Doors, failure_of
from functions.service.broker.invocations import LINGER_S, Invocation, Invocations
from functions.service.broker.reporting import CallReport
from functions.service.orders import BrokerOrder
from proto.types.errors import SlicewiseError
from proto.types.models import Model
from proto.wire import convert, frames, peers
from proto.wire.generated import slicewise_pb2_grpc as rpc

log = logging.getLogger(__name__)

PROTOCOL = 1
MAX_CONNECTIONS = 1024
MAX_REQUESTS = 256  # of one connection at once
PUT_TIMEOUT_S = 600.0  # gigabytes into a store on a slow disk
MAX_NOTE = 1000
REGISTER_TRIES = 20
REGISTER_PAUSE_S = 0.5


class RuntimeSide:
    """All connections of the function's processes."""

    def __init__(
        self, order: BrokerOrder, invocations: Invocations, doors: Doors, report: CallReport | None = None
    ) -> None:
        self._order = order
        self._report = report
        self._invocations = invocations
        self._doors = doors
        self._listener = frames.listen(order.runtime_socket)
        self._connections: set[asyncio.Task[None]] = set()
        self._stub = rpc.SchedulerStub(peers.channel(order.scheduler)) if order.scheduler else None
        self.greeted = asyncio.Event()
        self.note = ""  # what the runtime wants a person to know of this process
        self.noted = asyncio.Event()
        self._accepting = asyncio.create_task(self._accept(), name="runtime's socket")

    async def _accept(self) -> None:
        allowed = self._order.uid or os.getuid()
        while True:
            sock, _ = await asyncio.get_running_loop().sock_accept(self._listener)
            uid = int.from_bytes(sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)[4:8], "little")
            if uid != allowed or len(self._connections) >= MAX_CONNECTIONS:
                log.warning("a connection of uid %d to the runtime's socket was refused", uid)
                sock.close()
                continue
            conversation = _Conversation(frames.FrameConnection(sock), self._answer)
            task = asyncio.create_task(conversation.run(), name="runtime")
            self._connections.add(task)
            task.add_done_callback(self._connections.discard)

    async def _answer(
        self, conversation: _Conversation, header: frames.Header, fds: list[int]
    ) -> tuple[frames.Header, list[int]]:
        op = header.get("op")
        if op == "infer":
            return await self._infer(conversation, header, fds)
        if op == "register":
            try:
                answer = await self._register(header, fds)
                if self._report is not None and answer["stored"]:
                    self._report.registered(header)
                return answer, []
            except SlicewiseError as error:
                self._invocations.errors[error.code] = error
                raise
        if op == "hello":
            return self._hello(header), []
        if op == "note":
            self.note = str(header.get("text") or "")[:MAX_NOTE]
            self.noted.set()
            return {"ok": True}, []
        raise SlicewiseError("bad_request", f"The broker knows no operation {op!r}.")

    def _hello(self, header: frames.Header) -> frames.Header:
        if header.get("protocol") != PROTOCOL:
            text = f"The runtime speaks protocol {header.get('protocol')}, the broker {PROTOCOL}; deploy anew."
            raise SlicewiseError("conflict", text)
        self.greeted.set()
        if self._report is not None:
            self._report.greeted(header)
        function = f"{self._order.function}.{self._order.namespace}"
        return {"ok": True, "protocol": PROTOCOL, "function": function, "gpu": self._order.gpu}

    async def _infer(
        self, conversation: _Conversation, header: frames.Header, fds: list[int]
    ) -> tuple[frames.Header, list[int]]:
        invocation = self._invocations.find(str(header.get("call") or ""))
        if invocation is None:
            invocation = conversation.anonymous(self._invocations)
        if self._report is not None:
            return await self._report.watch(header, invocation.infer(header, fds))
        return await invocation.infer(header, fds)

    def forget(self) -> None:
        """The process has gone; what it said does not hold for the next one."""
        self.greeted.clear()
        self.noted.clear()

    # ------------------------------------------------------------------ registration

    async def _register(self, header: frames.Header, fds: list[int]) -> frames.Header:
        described: dict[str, Any] = header.get("model") or {}
        size = int(header.get("bytes") or (os.fstat(fds[0]).st_size if fds else 0))
        try:
            model = Model(
                digest=str(described["digest"]),
                worker=self._invocations.worker,
                kind=str(described["kind"]),
                class_name=str(described["class_name"]),
                tensor_bytes=int(described["tensor_bytes"]),
                package_bytes=size,
                python=str(described["python"]),
                torch=str(described["torch"]),
                distributions=tuple((str(name), str(version)) for name, version in described.get("distributions", ())),
                environment=self._order.environment_id,
            )
        except (KeyError, TypeError, ValueError) as error:
            raise SlicewiseError("bad_request", f"The runtime described its model badly: {error}.") from error
        door = self._doors.here()
        if door is None:
            text = "This node has no GPU manager, so a model of a GPU function cannot be stored from here."
            raise SlicewiseError("no_slice", text)
        if header.get("probe"):
            registered = await self._announce(model)
            answer, received = await door.ask({"op": "probe", "digests": [model.digest]}, [], peers.CALL_TIMEOUT_S)
            frames.close_fds(received)
            if not answer.get("ok"):
                raise failure_of(answer)
            # Stored on another node only: nodes pull from each other, so it need not be sent again.
            needed = not registered and bool(answer.get("missing", [model.digest]))
            return {"ok": True, "stored": not needed, "needed": needed}
        if not fds:
            raise SlicewiseError("bad_request", "A registration without probe brings the package.")
        answer, received = await door.ask({"op": "put", "model": asdict(model), "bytes": size}, fds[:1], PUT_TIMEOUT_S)
        frames.close_fds(received)
        if not answer.get("ok"):
            raise failure_of(answer)
        await self._announce(model)
        return {"ok": True, "stored": True, "needed": False}

    async def _announce(self, model: Model) -> bool:
        """Tell the scheduler of the model; returns whether some node holds its package already."""
        if self._stub is None:
            raise SlicewiseError("unavailable", "This node's function host knows no scheduler.")
        metadata = peers.metadata(self._order.credential)
        for attempt in range(REGISTER_TRIES):
            try:
                registered = await self._stub.RegisterModel(
                    convert.model_to_wire(model), metadata=metadata, timeout=peers.CALL_TIMEOUT_S
                )
                break
            except grpc.aio.AioRpcError as error:
                final = error.code() in (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED)
                if final or attempt == REGISTER_TRIES - 1:
                    code = "unauthorised" if final else "unavailable"
                    raise SlicewiseError(code, f"The scheduler did not take the model: {error.details()}") from error
                await asyncio.sleep(REGISTER_PAUSE_S)  # a scheduler that was killed is back within seconds
        if registered.HasField("failure"):
            raise convert.error(registered.failure)
        return bool(registered.stored)


_Handler = Callable[["_Conversation", frames.Header, list[int]], Awaitable[tuple[frames.Header, list[int]]]]


class _Conversation:
    """One connection, which is one thread of the function at a time."""

    def __init__(self, connection: frames.FrameConnection, answer: _Handler) -> None:
        self._connection = connection
        self._answer = answer
        self._requests: set[asyncio.Task[None]] = set()
        self._anonymous: Invocation | None = None
        self._linger: asyncio.TimerHandle | None = None

    def anonymous(self, invocations: Invocations) -> Invocation:
        """The invocation for calls of this thread that belong to no request."""
        if self._linger is not None:
            self._linger.cancel()
        if self._anonymous is None:
            self._anonymous = invocations.anonymous()
        self._linger = asyncio.get_running_loop().call_later(LINGER_S, self._let_go)
        return self._anonymous

    def _let_go(self) -> None:
        if self._anonymous is None:
            return
        quiet_ns = time.monotonic_ns() - self._anonymous.last_end_ns
        if self._anonymous.last_end_ns == 0 or quiet_ns < LINGER_S * 1e9:
            self._linger = asyncio.get_running_loop().call_later(LINGER_S, self._let_go)
            return
        self._anonymous.finish()
        self._anonymous = None

    async def run(self) -> None:
        """Until the process ends it."""
        try:
            while True:
                header, fds = await self._connection.receive()
                if len(self._requests) >= MAX_REQUESTS:
                    frames.close_fds(fds)
                    await self._refuse(
                        header, SlicewiseError("queue_full", "Too many calls of one thread at once.", 1.0)
                    )
                    continue
                task = asyncio.create_task(self._handle(header, fds))
                self._requests.add(task)
                task.add_done_callback(self._requests.discard)
        except frames.FrameError:
            pass
        finally:
            self._connection.close()
            for task in self._requests:
                task.cancel()
            if self._linger is not None:
                self._linger.cancel()
            if self._anonymous is not None:
                self._anonymous.finish(abandoned=True)

    async def _handle(self, header: frames.Header, fds: list[int]) -> None:
        received: list[int] = []
        try:
            answer, received = await self._answer(self, header, fds)
            await self._connection.send({**answer, "id": header.get("id")}, received)
        except SlicewiseError as error:
            await self._refuse(header, error)
        except (frames.FrameError, ConnectionError):
            pass  # the process has gone
        except asyncio.CancelledError:
            # Its request was given up while the process may go on; it must not wait for ever.
            await self._refuse(
                header, SlicewiseError("binding_gone", "The invocation is over; its call was taken back.")
            )
        except Exception:
            log.exception("a request of the runtime failed")
            await self._refuse(header, SlicewiseError("internal", "The broker failed; its log says why."))
        finally:
            frames.close_fds(fds)
            frames.close_fds(received)

    async def _refuse(self, header: frames.Header, error: SlicewiseError) -> None:
        described: dict[str, Any] = {"code": error.code, "message": error.message}
        if error.retry_after_s is not None:
            described["retry_after_s"] = error.retry_after_s
        with contextlib.suppress(frames.FrameError):
            await self._connection.send({"id": header.get("id"), "ok": False, "error": described})
