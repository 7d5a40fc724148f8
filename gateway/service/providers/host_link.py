"""One function host: the watch that tells its state, and the calls that change it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import time
from collections.abc import Awaitable, Callable, Iterator

import grpc.aio

from proto.types.errors import SlicewiseError
from proto.types.identity import FunctionKey
from proto.wire import convert, peers
from proto.wire.generated import slicewise_pb2 as pb
from proto.wire.generated import slicewise_pb2_grpc as rpc

_log = logging.getLogger(__name__)

_FIRST_BACKOFF_S = 0.1
_LAST_BACKOFF_S = 2.0
# Making an environment ready is the host's background work; accepting a wish is not.
APPLY_TIMEOUT_S = 10.0

OnState = Callable[["HostLink", bool], Awaitable[None]]


class HostLink:
    """`state` is what the host last said of each function; it stays while the host is away."""

    def __init__(self, name: str, address: str, credential: str, on_state: OnState) -> None:
        self.name = name
        self.address = address
        self.state: dict[FunctionKey, pb.FunctionState] = {}
        self.connected = False
        self.away_since_s = time.monotonic()  # while not connected
        self.sending = asyncio.Lock()  # wishes reach a host in the order they were made
        self.first_state = asyncio.Event()
        self._metadata = peers.metadata(credential)
        self._on_state = on_state
        self._channel = peers.channel(address)
        self.stub = rpc.FunctionHostStub(self._channel)
        self._task: asyncio.Task[None] | None = None

    def away_s(self) -> float:
        """Seconds since it was last heard, 0 while it is there."""
        return 0.0 if self.connected else time.monotonic() - self.away_since_s

    def start(self) -> None:
        """Watch the host from now on, through every restart of it."""
        self._task = asyncio.create_task(self._watch(), name=f"watch of {self.name}")

    async def close(self) -> None:
        """Stop watching."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        await self._channel.close(None)

    async def apply(self, wish: pb.ReplicaSet) -> None:
        """Tell the whole wish; raises SlicewiseError, `unavailable` when the host does not answer."""
        await self._change("Apply", self.stub.Apply, wish)

    async def remove(self, key: FunctionKey) -> None:
        """Stop a function; one that the host does not have is fine."""
        try:
            await self._change("Remove", self.stub.Remove, pb.FunctionRef(namespace=key.namespace, name=key.name))
        except SlicewiseError as error:
            if error.code != "not_found":
                raise

    async def resolve(self, image: str) -> pb.Image:
        """What the host knows of an image; raises SlicewiseError `bad_image` or `unavailable`."""
        with self._translated("ResolveImage"):
            answer: pb.Image = await self.stub.ResolveImage(
                pb.ImageRef(name=image), timeout=peers.CALL_TIMEOUT_S, metadata=self._metadata
            )
        if answer.HasField("failure") and answer.failure.code:
            raise convert.error(answer.failure)
        return answer

    def logs(self, request: pb.LogsRequest, timeout_s: float) -> grpc.aio.UnaryStreamCall:
        """The host's stream of log lines."""
        stream: grpc.aio.UnaryStreamCall = self.stub.Logs(request, metadata=self._metadata, timeout=timeout_s)
        return stream

    async def _change(self, what: str, method: Callable[..., Awaitable[pb.HostAnswer]], message: object) -> None:
        with self._translated(what):
            answer = await method(message, timeout=APPLY_TIMEOUT_S, metadata=self._metadata)
        if answer.HasField("failure") and answer.failure.code:
            raise convert.error(answer.failure)

    @contextlib.contextmanager
    def _translated(self, what: str) -> Iterator[None]:
        try:
            yield
        except grpc.aio.AioRpcError as error:
            raise SlicewiseError(
                "unavailable", f"The function host {self.name} did not answer {what}: {error.details()}."
            ) from error

    async def _watch(self) -> None:
        backoff_s = _FIRST_BACKOFF_S
        while True:
            try:
                first = True
                async for message in self.stub.Watch(pb.Empty(), metadata=self._metadata):
                    self.state = {
                        FunctionKey(state.function.namespace, state.function.name): state for state in message.functions
                    }
                    self.connected = True
                    self.first_state.set()
                    await self._on_state(self, first)
                    first, backoff_s = False, _FIRST_BACKOFF_S
            except grpc.aio.AioRpcError as error:
                if self.connected:
                    _log.warning("the function host %s is away: %s", self.name, error.details())
            if self.connected:
                self.connected = False
                self.away_since_s = time.monotonic()
            await asyncio.sleep(backoff_s * random.uniform(0.5, 1.0))
            backoff_s = min(backoff_s * 2, _LAST_BACKOFF_S)
