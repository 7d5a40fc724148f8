"""One slice, live: the core's instructions on real processes, and what happens to these as its events.

Everything runs on the event loop and nothing here waits: an event is handled to its end, with what
follows from it, before another is looked at. So when a turn ends the next call is on its way to its worker in the
same iteration of the loop.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from collections import deque
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from gpu_manager.core import events as ev
from gpu_manager.core import instructions as ins
from gpu_manager.core.slice import SliceCore
from gpu_manager.service.calls import PendingCall, Preparation
from gpu_manager.service.clock import from_unix, now_ns, to_unix
from gpu_manager.service.devices.seam import Device
from gpu_manager.service.process import error_of
from gpu_manager.service.workers import Workers
from proto.types.errors import SlicewiseError
from proto.types.models import Model
from proto.types.placing import Binding
from proto.types.slices import SliceState
from proto.wire import frames

if TYPE_CHECKING:
    from gpu_manager.service.node import Node

_log = logging.getLogger(__name__)


class LiveSlice:
    """Drives one SliceCore."""

    def __init__(self, node: Node, device: Device, max_waiting: int) -> None:
        self.device = device
        self.core = SliceCore(device.spec, device.overhead_bytes, max_waiting)
        self.workers = Workers(node, self)
        self.bindings: dict[str, Preparation] = {}
        self._node = node
        self._calls: dict[int, PendingCall] = {}
        self._events: deque[ev.Event] = deque()
        self._busy = False
        self._gap_ns = -1  # of the turn that has just begun, until its first call goes out
        self._gaps: dict[int, int] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ns = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop = asyncio.get_running_loop()
        self._closed = False

    # what the node tells
    def prepare(self, preparation: Preparation) -> None:
        """A binding was made: start its load."""
        binding = preparation.binding
        known = self.bindings.get(binding.id)
        if known is not None and not preparation.models:
            return
        self.bindings[binding.id] = preparation
        declared = self._node.devices.declared(_function_name(binding))
        self.post(
            ev.Prepared(
                binding.id,
                binding.worker,
                from_unix(binding.expires_unix_ns),
                preparation.needs(),
                preparation.usual,
                preparation.held_bytes,
                declared.held_bytes if declared else 0,
                binding.batch,
            )
        )
        if binding.id not in self.core.board.bindings:
            self.bindings.pop(binding.id, None)

    def call(self, call: PendingCall, model: Model | None, deadline_ns: int) -> None:
        """An Infer of a binding that was prepared."""
        self._calls[call.id] = call
        need = ev.Need(call.model, model.tensor_bytes if model else 0)
        self.post(ev.CallArrived(call.id, call.binding.id, need, deadline_ns, call.batch))

    def cancel(self, number: int) -> None:
        """Whoever sent the call has gone; a running one ends by itself and is not answered."""
        call = self._calls.get(number)
        if call is None:
            return
        call.reply = _nobody
        self.post(ev.CallCancelled(number))
        if number not in self.core.board.calls:
            self._calls.pop(number, None)
            call.drop()

    def end(self, binding: str, failure: SlicewiseError | None = None) -> None:
        """The invocation is over."""
        self.post(ev.BindingOver(binding, failure))

    def report(self, sequence: int) -> SliceState:
        """The slice as others see it, its times as Unix nanoseconds."""
        state = self.core.report(sequence)
        workers = tuple(dataclasses.replace(w, last_used_ns=to_unix(w.last_used_ns)) for w in state.workers)
        return dataclasses.replace(state, workers=workers, turn_started_ns=to_unix(state.turn_started_ns))

    def model(self, binding_id: str, digest: str) -> Model | None:
        """What is known of a model that a binding of this slice calls."""
        preparation = self.bindings.get(binding_id)
        if preparation is None:
            return None
        for model in preparation.models:
            if model.digest == digest:
                return model
        return self._node.model(preparation.binding, digest)

    # the core
    def post(self, event: ev.Event) -> None:
        """Tell the core, and do what it wants done."""
        self._events.append(event)
        if self._busy or self._closed:
            return
        self._busy = True
        try:
            while self._events:
                for order in self.core.handle(self._events.popleft(), now_ns()):
                    self._obey(order)
        finally:
            self._busy = False
        self._arm()
        self._node.changed(self)

    def _arm(self) -> None:
        now = now_ns()
        wake = self.core.wakeup(now)
        if wake is None or wake != self._timer_ns:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            self._timer_ns = 0
            if wake is not None:
                self._timer_ns = wake
                self._timer = self._loop.call_later(max(0.0, (wake - now) / 1e9), self._tick)

    def _tick(self) -> None:
        self._timer = None
        self._timer_ns = 0
        self.post(ev.Tick())

    def _obey(self, order: ins.Instruction) -> None:
        match order:
            case ins.Run():
                self._run(order)
            case ins.Limit():
                self.workers.limit(order)
            case ins.Answer():
                call = self._calls.pop(order.call, None)
                self._observe_gap(order, call)
                if call is not None:
                    call.answer(order)
            case ins.Load():
                self.spawn(self.workers.load(order))
            case ins.Kill():
                self.workers.kill(order)
                if order.evicted:
                    self._node.metrics.evictions.labels(self.device.spec.id).inc()
                    self._node.evicted(self)
            case ins.Reset():
                self.spawn(self.workers.reset(order))
            case ins.Fetch():
                self._fetch(order)
            case ins.AskVictims():
                self.spawn(self._ask_victims(order))
            case ins.BindingDropped():
                self.bindings.pop(order.binding, None)
                self._node.binding_dropped(self, order)
            case ins.TurnBegan() | ins.TurnOver() | ins.WorkerLoaded():
                if isinstance(order, ins.TurnBegan):
                    self._gap_ns = order.gap_ns
                self._node.happened(self, order)

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run something that waits; it ends with the slice."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _observe_gap(self, order: ins.Answer, call: PendingCall | None) -> None:
        """A gap lasts until the turn's first call went out, and what that call's way to the worker and back took."""
        gap = self._gaps.pop(order.call, None)
        if gap is not None and call is not None and "infer_s" in call.result:
            on_its_way = order.infer_ns - int(float(call.result["infer_s"]) * 1e9)
            self._node.metrics.gap_seconds.labels(self.device.spec.id).observe((gap + max(0, on_its_way)) / 1e9)

    def _run(self, order: ins.Run) -> None:
        if self._gap_ns >= 0:
            self._gaps[order.call] = self._gap_ns
        self._gap_ns = -1
        call = self._calls.get(order.call)
        function = _function_name(call.binding) if call else ""
        batch = (call.batch or call.binding.batch) if call else 0
        at_least = self._node.devices.infer_s(function, self.device, batch)
        self.workers.run(order, call, at_least)

    def ran(self, number: int, header: dict[str, Any], fds: list[int], peak_bytes: int) -> None:
        """The worker answered a call; it has held so much at most since it was loaded (0: not known)."""
        call = self._calls.get(number)
        if call is None:
            frames.close_fds(fds)
        else:
            call.result, call.result_fds = header, fds
        ok = bool(header.get("ok"))
        needed = int(header.get("needed_bytes") or 0)
        failure = None if ok else error_of(header)
        self.post(ev.CallDone(number, bool(header.get("state")), failure, needed, peak_bytes))

    def _fetch(self, order: ins.Fetch) -> None:
        missing = [d for d in order.digests if self._node.store.get(_function(order.worker), d) is None]
        here = tuple(d for d in order.digests if d not in missing)
        if here:
            self._events.append(ev.Fetched(order.worker, here))
        for digest in missing:
            self.spawn(self._pull(order.worker, digest))

    async def _pull(self, worker: str, digest: str) -> None:
        failure: SlicewiseError | None = None
        try:
            await self._node.pull(self, worker, digest)
        except SlicewiseError as error:
            failure = error
        except Exception as error:
            _log.exception("pulling %s failed", digest)
            failure = SlicewiseError("internal", f"Model {digest} could not be fetched: {type(error).__name__}.")
        self.post(ev.Fetched(worker, (digest,), failure))

    async def _ask_victims(self, order: ins.AskVictims) -> None:
        try:
            victims = await self._node.cache.admit(self, order)
            self.post(ev.VictimsNamed(order.worker, victims))
        except SlicewiseError as error:
            self.post(ev.VictimsNamed(order.worker, (), error))
        except Exception:
            _log.exception("asking for victims failed")
            self.post(ev.VictimsNamed(order.worker, (), SlicewiseError("unavailable", "No victims could be named.")))

    async def close(self) -> None:
        """End the workers; nothing is answered any more."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.workers.close()
        for call in self._calls.values():
            call.drop()
        self._calls.clear()


def _nobody(header: dict[str, Any], fds: list[int]) -> None:
    frames.close_fds(fds)


def _function(worker: str) -> str:
    return worker.rpartition("@")[0]


def _function_name(binding: Binding) -> str:
    return _function(binding.worker).rpartition(".")[0]
