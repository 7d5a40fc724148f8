"""`Scheduler.Node`: the GPU managers' streams: what they report, what they are told."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable

import grpc
import grpc.aio
from google.protobuf.json_format import MessageToDict

from datastore import keys
from proto.types.slices import WorkerStatus
from proto.wire import convert
from proto.wire.generated import slicewise_pb2 as pb
from scheduler.core import events as ev
from scheduler.service.desk import Desk, Node
from scheduler.service.pen import Pen
from scheduler.service.streams import Stream

log = logging.getLogger(__name__)


class Nodes:
    """`learned` is called with a worker key whose profile may have moved."""

    def __init__(self, desk: Desk, pen: Pen, learned: Callable[[str], None]) -> None:
        self._desk = desk
        self._pen = pen
        self._learned = learned

    async def converse(self, requests: AsyncIterator[pb.NodeUp], context: grpc.aio.ServicerContext) -> None:
        """One stream, from its hello to its end."""
        first = await anext(aiter(requests), None)
        if first is None or first.WhichOneof("what") != "hello" or not first.hello.node:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "The first message must be a hello that names you.")
            return
        hello = first.hello
        async with Stream(context, f"node {hello.node}", together=True) as stream:
            self._join(hello, stream)
            try:
                async for message in requests:
                    self._hear(hello.node, message)
                    for later in message.more:
                        self._hear(hello.node, later)
            finally:
                here = self._desk.nodes.get(hello.node)
                if here is not None and here.stream is stream:
                    del self._desk.nodes[hello.node]
                    self._desk.catalogue.node_gone(hello.node)
                    log.warning("the node %s is gone", hello.node)
                    self._desk.tell(lambda now: ev.NodeLost(now, hello.node))

    def _join(self, hello: pb.NodeHello, stream: Stream) -> None:
        desk = self._desk
        stream.send(pb.NodeDown(epoch=pb.Epoch(epoch=desk.epoch)))
        if desk.catalogue.complete:
            stream.send(wanted(desk))
        desk.nodes[hello.node] = Node(hello, stream)
        desk.catalogue.node_here(hello.node, hello.control_address)
        specs = tuple(convert.spec_from_wire(spec) for spec in hello.slices)
        log.info("the node %s is here with %d slices", hello.node, len(specs))
        desk.tell(lambda now: ev.NodeJoined(now, hello.node, specs))
        record = MessageToDict(hello, preserving_proto_field_name=True)
        self._pen.write(keys.node(hello.node), record, soon=True)

    def _hear(self, node: str, message: pb.NodeUp) -> None:
        desk, kind = self._desk, message.WhichOneof("what")
        if kind == "report":
            self._report(message.report)
        elif kind == "turn_started":
            started = message.turn_started
            desk.tell(lambda now: ev.TurnStarted(now, started.binding_id, started.hit))
        elif kind == "turn_ended":
            ended = message.turn_ended
            desk.tell(
                lambda now: ev.TurnEnded(
                    now, ended.binding_id, ended.calls, ended.infer_ns, ended.batch, ended.handover_ns
                )
            )
            self._learned(ended.worker)
        elif kind == "loaded":
            loaded = message.loaded
            desk.tell(
                lambda now: ev.Loaded(
                    now,
                    loaded.slice,
                    loaded.worker,
                    loaded.load_ns,
                    loaded.held_bytes,
                    loaded.failure.code,
                    tuple(loaded.evicted),
                )
            )
            self._learned(loaded.worker)
        elif kind == "binding_ended":
            over = message.binding_ended
            desk.tell(lambda now: ev.BindingEnded(now, over.binding_id, over.failure.code, over.failure.message))
            desk.forget_token(over.binding_id)
        elif kind == "stored":
            said = message.stored
            desk.catalogue.stored(node, list(said.digests), list(said.functions), said.whole)

    def _report(self, report: pb.SliceReport) -> None:
        state = convert.report_from_wire(report)
        self._desk.tell(lambda now: ev.SliceReported(now, state))
        for worker in state.workers:
            if worker.status is WorkerStatus.READY and self._desk.profiles.learn_held(worker.key, worker.held_bytes):
                key = worker.key
                self._desk.tell(lambda now, key=key: ev.ProfileChanged(now, key))  # type: ignore[misc]


def wanted(desk: Desk) -> pb.NodeDown:
    """Every package that a deployed function refers to, and the workers that may still be called."""
    catalogue = desk.catalogue
    return pb.NodeDown(wanted=pb.Wanted(digests=catalogue.wanted(), workers=catalogue.kept()))


def tell_wanted(desk: Desk) -> None:
    """Tell every GPU manager; not before all functions are known, or nodes would drop what is only unread."""
    if desk.catalogue.complete:
        desk.to_all_nodes(wanted(desk))
