"""The gRPC face of the scheduler: each method finds its room; failures become statuses here."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import grpc
import grpc.aio

from proto.types.errors import SlicewiseError
from proto.wire import convert, peers
from proto.wire.generated import slicewise_pb2 as pb
from proto.wire.generated import slicewise_pb2_grpc as rpc
from scheduler.core.document import state_document
from scheduler.core.explaining import explanation
from scheduler.service.book import Book
from scheduler.service.calling import REPLICA, Calls
from scheduler.service.desk import Desk
from scheduler.service.noding import Nodes

# Who may call what; every other method is for services.
ALLOWED = {
    "Calls": ("service:", REPLICA),
    "RegisterModel": ("service:", REPLICA),
    "Node": ("service:gpu_manager",),
}


class Scheduler(rpc.SchedulerServicer):  # type: ignore[misc]
    """See slicewise.proto."""

    def __init__(self, desk: Desk, calls: Calls, nodes: Nodes, book: Book) -> None:
        self._desk = desk
        self._calls = calls
        self._nodes = nodes
        self._book = book

    async def Calls(self, requests: AsyncIterator[pb.CallUp], context: grpc.aio.ServicerContext) -> None:
        """Gateways and brokers."""
        await self._calls.converse(requests, context)

    async def Node(self, requests: AsyncIterator[pb.NodeUp], context: grpc.aio.ServicerContext) -> None:
        """GPU managers."""
        await self._nodes.converse(requests, context)

    async def RegisterModel(self, message: pb.Model, _context: Any) -> pb.Registered:
        """A model that a replica's process has; the failure travels in the answer."""
        try:
            subject = peers.caller.get()
            function = message.worker.rpartition("@")[0]
            if subject.startswith(REPLICA) and subject.removeprefix(REPLICA) != function:
                raise SlicewiseError("forbidden", f"{subject} may not register models of {function}.")
            return pb.Registered(stored=self._book.register(convert.model_from_wire(message)))
        except SlicewiseError as error:
            return pb.Registered(failure=convert.failure(error))
        except ValueError:
            return pb.Registered(failure=pb.Failure(code="bad_request", message="The model's record cannot be read."))

    async def GetPolicy(self, _message: pb.Empty, _context: Any) -> pb.Json:
        """`{"name", parameters}`."""
        return pb.Json(text=json.dumps(self._desk.core.policy.parameters()))

    async def SetPolicy(self, message: pb.Json, context: grpc.aio.ServicerContext) -> pb.Json:
        """The policy that is set then; INVALID_ARGUMENT with the sentence of `bad_policy`, and nothing changed."""
        try:
            set_to = self._book.set_policy(message.text)
        except SlicewiseError as error:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, error.message)
            raise
        self._calls.refresh_all_hints()
        return pb.Json(text=json.dumps(set_to))

    async def SetPools(self, message: pb.Json, context: grpc.aio.ServicerContext) -> pb.Json:
        """`{slice id: pool}`, and all pools then; INVALID_ARGUMENT with a sentence, and nothing changed."""
        return await self._pooled(self._book.pooling.set, message, context)

    async def CheckReserve(self, message: pb.Json, context: grpc.aio.ServicerContext) -> pb.Json:
        """`{"function", "reserve"}`: INVALID_ARGUMENT, with what is there, if it cannot have that many slices."""
        return await self._pooled(self._book.pooling.check, message, context)

    async def _pooled(
        self, do: Callable[[str], dict[str, str]], message: pb.Json, context: grpc.aio.ServicerContext
    ) -> pb.Json:
        try:
            return pb.Json(text=json.dumps(do(message.text)))
        except SlicewiseError as error:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, error.message)
            raise

    async def GetState(self, _message: pb.Empty, _context: Any) -> pb.Json:
        """Slices, queue, bindings, recent placements."""
        document = state_document(self._desk.core)
        document["epoch"] = self._desk.epoch
        return pb.Json(text=json.dumps(document))

    async def Explain(self, message: pb.CallRef, context: grpc.aio.ServicerContext) -> pb.Json:
        """Why a call is where it is; NOT_FOUND, with the number of placements that are kept, when nothing is known."""
        core = self._desk.core
        found = explanation(core, message.call_id)
        if found is None:
            kept = core.records.recent
            await context.abort(
                grpc.StatusCode.NOT_FOUND,
                f"Nothing is kept of the call {message.call_id[:200]!r}: no GPU call had this id, or it is forgotten. "
                f"The scheduler keeps the last {kept.limit:,} placements and has {len(kept):,} now.",
            )
        return pb.Json(text=json.dumps(found))

    async def GetModels(self, _message: pb.Empty, _context: Any) -> pb.Json:
        """Every registered model: what it is, what is known of it, where it is cached."""
        return pb.Json(text=json.dumps({"models": [self._model(*item) for item in self._desk.catalogue]}))

    def _model(self, function: str, registered: Any) -> dict[str, Any]:
        profiles, worker = self._desk.profiles, registered.workers[-1]
        holders = self._desk.core.state.holders
        cached = {g.id for worker in registered.workers for g in holders.of(worker)}
        return {
            "digest": registered.model.digest,
            "function": function,
            "class": registered.model.class_name,
            "kind": registered.model.kind,
            "bytes": registered.model.tensor_bytes,
            "held_bytes": profiles.measured_bytes(worker),
            "load_s": profiles.load_ns(worker) / 1e9 if profiles.loaded(worker) else None,
            "workers": registered.workers,
            "cached": sorted(cached),
            "stored": self._desk.catalogue.is_stored(function, registered.model.digest),
        }
