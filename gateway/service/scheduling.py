"""What people ask the scheduler through the gateway: its policy, its state, its reasons, the models it knows."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

import grpc
import grpc.aio

from proto.types.errors import SlicewiseError
from proto.wire import peers
from proto.wire.generated import slicewise_pb2 as pb
from proto.wire.generated import slicewise_pb2_grpc as rpc

_INVALID = grpc.StatusCode.INVALID_ARGUMENT
_CODES = {
    grpc.StatusCode.NOT_FOUND: "not_found",
    grpc.StatusCode.UNIMPLEMENTED: "not_implemented",
    grpc.StatusCode.UNAVAILABLE: "unavailable",
    grpc.StatusCode.DEADLINE_EXCEEDED: "unavailable",
    grpc.StatusCode.UNAUTHENTICATED: "unavailable",
    grpc.StatusCode.PERMISSION_DENIED: "unavailable",
}


class SchedulerQueries:
    """Unary calls to the scheduler. Raises SlicewiseError; `unavailable` while it is away."""

    def __init__(self, scheduler: str, credential: str) -> None:
        self._address = scheduler
        self._metadata = peers.metadata(credential)
        self._channel = peers.channel(scheduler) if scheduler else None
        self._stub = rpc.SchedulerStub(self._channel) if self._channel else None

    async def close(self) -> None:
        """End the channel."""
        if self._channel is not None:
            await self._channel.close(None)

    async def policy(self) -> Any:
        """The policy with its parameters."""
        return await self._ask("GetPolicy", pb.Empty())

    async def set_policy(self, policy: dict[str, Any]) -> Any:
        """Another policy; raises SlicewiseError `bad_policy`, and nothing has changed."""
        return await self._ask("SetPolicy", pb.Json(text=json.dumps(policy)))

    async def state(self) -> Any:
        """Slices and queues at this moment."""
        return await self._ask("GetState", pb.Empty())

    async def explain(self, call_id: str) -> Any:
        """Why a call is where it is; raises SlicewiseError `not_found` when the scheduler keeps nothing of it."""
        return await self._ask("Explain", pb.CallRef(call_id=call_id))

    async def models(self) -> Any:
        """The registered models."""
        return await self._ask("GetModels", pb.Empty())

    async def pools(self) -> Any:
        """The pool of every slice."""
        state = await self.state()
        return {item["id"]: item["pool"] for item in state.get("slices", [])}

    async def set_pools(self, wish: dict[str, Any]) -> Any:
        """Put slices into pools; the pools then. Raises SlicewiseError `bad_request`, and nothing has changed."""
        return await self._ask("SetPools", pb.Json(text=json.dumps(wish)), "bad_request")

    async def check_reserve(self, function: str, reserve: str) -> None:
        """Raise SlicewiseError `bad_function`, with what is there, if the function cannot have these slices."""
        asked = pb.Json(text=json.dumps({"function": function, "reserve": reserve}))
        await self._ask("CheckReserve", asked, "bad_function")

    async def _ask(self, name: str, message: object, invalid: str = "bad_policy") -> Any:
        if self._stub is None:
            raise SlicewiseError("unavailable", "This gateway has no scheduler.")
        method: Callable[..., Awaitable[pb.Json]] = getattr(self._stub, name)
        try:
            answer = await method(message, timeout=peers.CALL_TIMEOUT_S, metadata=self._metadata)
        except grpc.aio.AioRpcError as error:
            code = invalid if error.code() is _INVALID else _CODES.get(error.code(), "internal")
            text = error.details() or error.code().name
            if code == "unavailable":
                text = f"The scheduler at {self._address} does not answer: {text}."
            raise SlicewiseError(code, text) from error
        return json.loads(answer.text)
