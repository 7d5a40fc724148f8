"""The node's stream to the scheduler: what happens here goes up, bindings and wishes come down.

It connects for ever. While nobody answers, calls with signed bindings go on; what happened meanwhile is
not kept, since the first thing that a new connection carries is the whole state.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import deque
from collections.abc import AsyncIterator

import grpc
import grpc.aio

from gpu_manager.core import instructions as ins
from gpu_manager.core.events import Usual
from gpu_manager.service import pulling
from gpu_manager.service.calls import Preparation
from gpu_manager.service.node import Node
from gpu_manager.service.slices import LiveSlice
from proto.types.errors import SlicewiseError
from proto.types.models import Model
from proto.wire import convert, peers
from proto.wire.generated import slicewise_pb2 as pb
from proto.wire.generated import slicewise_pb2_grpc as rpc

_log = logging.getLogger(__name__)

FIRST_BACKOFF_S = 0.1
MAX_BACKOFF_S = 1.0
# Whoever waits for a slice waits for these, so they go at once; the rest goes along, or a little later.
URGENT = ("turn_ended", "loaded", "stored")
LINGER_S = 0.003
REPORT_SPACING_S = 0.020  # the state behind the events may be gathered for so long
MAX_TOGETHER = 100  # messages in one, far below what gRPC would cut
REPEAT_S = 1.0
MAX_UNSENT = 20_000
MAX_COPYING = 1000


class SchedulerLink:
    """The client of Scheduler.Node."""

    def __init__(self, node: Node, address: str, control_address: str) -> None:
        self._node = node
        self._address = address
        self._control = control_address
        self._unsent: deque[pb.NodeUp] = deque(maxlen=MAX_UNSENT)
        self._dirty: dict[str, None] = {}
        self._wake = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._wanted: list[str] | None = None
        self._collecting: asyncio.TimerHandle | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._lingering: asyncio.TimerHandle | None = None
        self._copying: set[asyncio.Task[None]] = set()
        self._one_copy = asyncio.Lock()
        self.connected = False
        node.listeners.append(self._happened)
        node.on_changed = self._changed
        node.on_stored = self._store_changed
        self._task = asyncio.create_task(self._keep()) if address else None

    # up
    def _happened(
        self, live: LiveSlice, order: ins.TurnBegan | ins.TurnOver | ins.WorkerLoaded | ins.BindingDropped
    ) -> None:
        slice_id = live.device.spec.id
        match order:
            case ins.TurnBegan():
                up = pb.NodeUp(turn_started=pb.TurnStarted(binding_id=order.binding, slice=slice_id, hit=order.hit))
            case ins.TurnOver():
                up = pb.NodeUp(
                    turn_ended=pb.TurnEnded(
                        binding_id=order.binding, slice=slice_id, worker=order.worker, calls=order.calls,
                        infer_ns=order.infer_ns, batch=order.batch, handover_ns=order.handover_ns,
                    )
                )  # fmt: skip
            case ins.WorkerLoaded():
                loaded = pb.Loaded(
                    slice=slice_id, worker=order.worker, load_ns=order.load_ns, held_bytes=order.held_bytes,
                    evicted=order.evicted,
                )  # fmt: skip
                if order.failure is not None:
                    loaded.failure.CopyFrom(convert.failure(order.failure))
                up = pb.NodeUp(loaded=loaded)
            case ins.BindingDropped():
                ended = pb.BindingEnded(binding_id=order.binding, slice=slice_id)
                if order.failure is not None:
                    ended.failure.CopyFrom(convert.failure(order.failure))
                up = pb.NodeUp(binding_ended=ended)
        self._send(up)

    def _send(self, up: pb.NodeUp) -> None:
        if not self.connected:
            return
        self._unsent.append(up)
        kind = up.WhichOneof("what")
        failed = kind == "binding_ended" and up.binding_ended.HasField("failure")
        if failed or kind in URGENT:
            self._wake.set()
        elif self._lingering is None:
            self._lingering = self._loop.call_later(LINGER_S, self._wake.set)

    def _changed(self, live: LiveSlice) -> None:
        self._dirty[live.device.spec.id] = None
        if self._timer is None and self.connected:
            self._timer = self._loop.call_later(REPORT_SPACING_S, self._gathered)

    def _gathered(self) -> None:
        self._timer = None
        self._wake.set()

    def _store_changed(self) -> None:
        # The thread that wrote a package says so.
        self._loop.call_soon_threadsafe(self._stored)

    def _stored(self) -> None:
        self._send(self._packages())

    def _packages(self) -> pb.NodeUp:
        held = self._node.store.packages()
        digests, functions = [digest for _, digest in held], [function for function, _ in held]
        return pb.NodeUp(stored=pb.Stored(digests=digests, functions=functions, whole=True))

    async def _keep(self) -> None:
        backoff = FIRST_BACKOFF_S
        while True:
            channel = peers.channel(self._address)
            try:
                stream = rpc.SchedulerStub(channel).Node(self._up(), metadata=peers.metadata(self._node.credential))
                async for down in stream:
                    if not self.connected:
                        self.connected = True
                    backoff = FIRST_BACKOFF_S
                    self._down(down)
                    for later in down.more:
                        self._down(later)
                _log.warning("the scheduler has closed the node's stream")
            except grpc.aio.AioRpcError as error:
                if self.connected or backoff == FIRST_BACKOFF_S:
                    _log.warning("the scheduler is away: %s", error.details())
            finally:
                self.connected = False
                self._unsent.clear()
                await channel.close(None)
            await asyncio.sleep(backoff * random.uniform(0.5, 1.5))
            backoff = min(MAX_BACKOFF_S, backoff * 2)

    async def _up(self) -> AsyncIterator[pb.NodeUp]:
        settings = self._node.settings
        hello = pb.NodeHello(
            node=settings.node,
            door_path=str(settings.door_path),
            door_address=self._control,
            control_address=self._control,
            slices=[convert.spec_to_wire(live.device.spec) for live in self._node.slices.values()],
            zygotes=self._node.zygotes.versions(),
        )
        yield pb.NodeUp(hello=hello)
        yield self._packages()
        self.connected = True
        self._dirty = dict.fromkeys(self._node.slices)
        repeat = self._loop.time()
        while True:
            self._wake.clear()
            if self._lingering is not None:
                self._lingering.cancel()
                self._lingering = None
            if self._timer is None:
                dirty, self._dirty = self._dirty, {}
                self._unsent.extend(pb.NodeUp(report=self._node.report(self._node.slices[name])) for name in dirty)
            while self._unsent:
                first = self._unsent.popleft()
                first.more.extend(self._unsent.popleft() for _ in range(min(len(self._unsent), MAX_TOGETHER)))
                yield first
            rest = repeat + REPEAT_S - self._loop.time()
            if rest <= 0:
                repeat = self._loop.time()
                self._dirty = dict.fromkeys(self._node.slices)
                continue
            try:
                async with asyncio.timeout(rest):
                    await self._wake.wait()
            except TimeoutError:
                continue

    # down
    def _down(self, down: pb.NodeDown) -> None:
        match down.WhichOneof("what"):
            case "prepare":
                self._prepare(down.prepare)
            case "unbind":
                failure = convert.error(down.unbind.failure) if down.unbind.HasField("failure") else None
                gone = SlicewiseError("binding_gone", "The scheduler has taken the binding back.")
                self._node.end(down.unbind.binding_id, failure or gone)
            case "wanted":
                self._wanted = list(down.wanted.digests)
                self._node.wanted(frozenset(down.wanted.workers))
                self._collect()
            case "epoch":
                self._node.fence.epoch = max(self._node.fence.epoch, down.epoch.epoch)
            case "hold":
                self._hold(down.hold)
            case "keep":
                self._node.keep[down.keep.slice] = list(down.keep.items)

    def _prepare(self, message: pb.Prepare) -> None:
        try:
            binding = self._node.binding(message.binding)
        except SlicewiseError as error:
            _log.warning("a Prepare was refused: %s", error)
            return
        usual = message.usual
        preparation = Preparation(
            binding=binding,
            models=tuple(convert.model_from_wire(model) for model in message.models),
            sources={source.digest: tuple(source.addresses) for source in message.sources},
            usual=Usual(usual.gap_ns, usual.between_ns, usual.calls),
            held_bytes=message.held_bytes,
        )
        try:
            self._node.prepare(preparation)
        except SlicewiseError as error:
            _log.warning("binding %s was refused: %s", binding.id, error)
            ended = pb.BindingEnded(binding_id=binding.id, slice=binding.slice, failure=convert.failure(error))
            self._send(pb.NodeUp(binding_ended=ended))

    def _hold(self, hold: pb.Hold) -> None:
        if len(self._copying) < MAX_COPYING:
            task = asyncio.create_task(self._copy(convert.model_from_wire(hold.model), list(hold.addresses)))
            self._copying.add(task)
            task.add_done_callback(self._copying.discard)

    async def _copy(self, model: Model, addresses: list[str]) -> None:
        try:
            async with self._one_copy:  # what a call waits for is pulled beside it and shall not starve
                await pulling.pull(self._node.store, model, addresses, self._node.credential)
        except SlicewiseError as error:
            _log.warning("no copy of %s is kept here: %s", model.digest, error)
        self._collect()  # it may have become unwanted meanwhile

    def _collect(self) -> None:
        self._collecting = None
        if self._wanted is None:
            return
        in_use = {digest for live in self._node.slices.values() for p in live.bindings.values()
                  for digest in (m.digest for m in p.models)}  # fmt: skip
        grace = self._node.settings.collect_grace_s
        if self._node.store.collect(self._wanted, grace, in_use) and self._collecting is None:
            self._collecting = self._loop.call_later(max(1.0, grace / 4), self._collect)

    async def close(self) -> None:
        """End the stream."""
        for timer in (self._collecting, self._timer, self._lingering):
            if timer is not None:
                timer.cancel()
        self.connected = False
        tasks = [*self._copying, *([self._task] if self._task is not None else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
