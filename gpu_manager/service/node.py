"""A node: its slices, its store, its zygotes, and which binding belongs where."""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
import logging
import time
from collections import OrderedDict
from collections.abc import Callable

from gpu_manager.core import instructions as ins
from gpu_manager.core.events import Usual, Wanted
from gpu_manager.core.fence import Fence
from gpu_manager.service import cgroups, pulling
from gpu_manager.service.cache import CacheLink
from gpu_manager.service.calls import PendingCall, Preparation
from gpu_manager.service.clock import now_ns
from gpu_manager.service.devices.seam import Devices
from gpu_manager.service.metrics import Metrics
from gpu_manager.service.settings import GpuManagerSettings
from gpu_manager.service.slices import LiveSlice
from gpu_manager.service.store import Store
from gpu_manager.service.zygotes import Zygotes
from proto.types.errors import SlicewiseError
from proto.types.identity import WorkerKey
from proto.types.models import Model
from proto.types.placing import Binding
from proto.wire import convert
from proto.wire.credentials import Trust
from proto.wire.generated import slicewise_pb2 as pb

_log = logging.getLogger(__name__)

PREPARE_GRACE_S = 1.0
PREPARE_LOOK_S = 0.02
MAX_USUALS = 4096
MAX_TOKENS = 8192  # verified tokens that are kept, so that an Infer costs no signature check
Listener = Callable[[LiveSlice, ins.TurnBegan | ins.TurnOver | ins.WorkerLoaded | ins.BindingDropped], None]


class Node:
    """Everything of this node that doors and links share."""

    def __init__(self, settings: GpuManagerSettings, devices: Devices, trust: Trust) -> None:
        self.settings = settings
        self.devices = devices
        self.trust = trust
        self.credential = settings.credential_token()
        self.metrics = Metrics()
        self.fence = Fence()
        self.store = Store(settings.state_dir / "models", self._store_changed)
        # Where other functions' bundles and packages lie, and the sockets of the platform.
        hide = [*settings.hide, settings.door_path.parent, settings.state_dir]
        hide += [settings.images_dir] if settings.images_dir else []
        self.zygotes = Zygotes(settings.zygotes, not any(device.cuda for device in devices.slices()), hide)
        self.cgroups = cgroups.find(settings.node)
        if self.cgroups.base is None and any(device.spec.kind == "cpu" for device in devices.slices()):
            _log.warning("no memory cgroups can be made here: a call on a CPU slice may pass its limit by a little")
        self.keep: dict[str, list[pb.KeepItem]] = {}
        self.listeners: list[Listener] = []
        self.on_changed: Callable[[LiveSlice], None] = lambda live: None
        self.on_stored: Callable[[], None] = lambda: None
        self._usuals: OrderedDict[str, Usual] = OrderedDict()
        self._tokens: OrderedDict[str, Binding] = OrderedDict()
        self._calls = itertools.count(1)
        # Higher than anything that an earlier process of this node has sent.
        self._sequence = time.time_ns()
        self.cache = CacheLink(self, settings.cache_manager, self.credential)
        self.slices: dict[str, LiveSlice] = {}
        for device in devices.slices():
            self.slices[device.spec.id] = LiveSlice(self, device, settings.max_waiting)
        self.metrics.slices = list(self.slices.values())

    # bindings
    def binding(self, token: str) -> Binding:
        """The binding in a token, its signature checked; raises SlicewiseError.

        `unauthorised` for a forged one, `binding_gone` for one that has expired.
        """
        binding = self._tokens.get(token)
        if binding is None:
            # With the epoch's first second as the time, expiry is left to us: it has another answer.
            binding = convert.verify_binding(self.trust, token, 0)
            self._tokens[token] = binding
            if len(self._tokens) > MAX_TOKENS:
                self._tokens.popitem(last=False)
        if binding.expires_unix_ns < time.time_ns():
            raise SlicewiseError("binding_gone", "The binding of this call has expired.")
        return binding

    def slice_of(self, binding: Binding) -> LiveSlice:
        """The slice that a binding names; raises SlicewiseError `slice_lost` if it is not of this node."""
        live = self.slices.get(binding.slice)
        if live is None:
            raise SlicewiseError("slice_lost", f"Slice {binding.slice} is not on node {self.settings.node}.")
        return live

    def prepare(self, preparation: Preparation) -> LiveSlice:
        """Take a binding in, and start its load; raises SlicewiseError `stale_epoch` or `slice_lost`."""
        binding = preparation.binding
        live = self.slice_of(binding)
        if binding.id not in live.bindings:
            self.fence.admit(binding.epoch)
        if preparation.usual.calls:
            self._usuals[binding.worker] = preparation.usual
            self._usuals.move_to_end(binding.worker)
            if len(self._usuals) > MAX_USUALS:
                self._usuals.popitem(last=False)
        elif binding.worker in self._usuals:  # this call came before its Prepare
            preparation = dataclasses.replace(preparation, usual=self._usuals[binding.worker])
        live.prepare(preparation)
        return live

    def infer(self, token: str, function: str, call: PendingCall, deadline_s: float) -> Callable[[], None]:
        """Queue a model call; gives what cancels it. Raises SlicewiseError; then the call is still the caller's."""
        binding = call.binding = self.binding(token)
        self.check_function(binding, function)
        live = self.slice_of(binding)
        if binding.id not in live.bindings:
            if binding.id in live.core.board.ended:
                raise SlicewiseError("binding_gone", "The binding of this call has ended.")
            self.prepare(Preparation(binding))
        call.id = next(self._calls)
        live.call(call, live.model(binding.id, call.model), now_ns() + int(deadline_s * 1e9))
        return lambda: live.cancel(call.id)

    def check_function(self, binding: Binding, function: str) -> None:
        """Refuse a binding that is not of the caller's own function; "" is a service, which may use all."""
        if function and str(WorkerKey.parse(binding.worker).function) != function:
            raise SlicewiseError("forbidden", f"This binding is not of {function}.")

    def end(self, binding_id: str, failure: SlicewiseError | None = None) -> None:
        """An invocation is over, wherever it was bound."""
        for live in self.slices.values():
            if binding_id in live.bindings:
                live.end(binding_id, failure)

    def wanted(self, workers: frozenset[str]) -> None:
        """These worker keys may still be called; the others' memory, and the packages that they map, are given back."""
        for live in self.slices.values():
            live.post(Wanted(workers))

    def model(self, binding: Binding, digest: str) -> Model | None:
        """What the store knows of a binding's model."""
        stored = self.store.get(str(WorkerKey.parse(binding.worker).function), digest)
        return stored.model if stored else None

    # models
    async def pull(self, live: LiveSlice, worker: str, digest: str) -> None:
        """Fetch a missing package from where the bindings that want it say it is.

        Raises SlicewiseError `unavailable` when no binding says so or no peer gives it.
        """
        for _ in range(round(PREPARE_GRACE_S / PREPARE_LOOK_S)):
            for preparation in list(live.bindings.values()):
                model = next((m for m in preparation.models if m.digest == digest), None)
                if preparation.binding.worker == worker and model is not None and preparation.sources.get(digest):
                    await pulling.pull(self.store, model, preparation.sources[digest], self.credential)
                    return
            if self.store.get(worker.rpartition("@")[0], digest) is not None:
                return
            # The call may have overtaken its Prepare, or the package its upload.
            await asyncio.sleep(PREPARE_LOOK_S)
        raise SlicewiseError("unavailable", f"Model {digest} is not on this node, nor on any other that is here.", 1.0)

    def sys_path(self, environment: str) -> list[str]:
        """What of an environment goes onto a worker's path; an unknown one has nothing."""
        if self.settings.images_dir is None or not environment or "/" in environment or environment.startswith("."):
            return []
        folder = self.settings.images_dir.resolve() / "environments" / environment
        return [str(path) for path in sorted(folder.glob("lib/python3*/site-packages"))]

    # what slices say
    def report(self, live: LiveSlice) -> pb.SliceReport:
        """A slice's whole state, numbered."""
        self._sequence += 1
        return convert.report_to_wire(live.report(self._sequence))

    def changed(self, live: LiveSlice) -> None:
        """Something may have changed on a slice."""
        self.cache.changed(live.device.spec.id)
        self.on_changed(live)

    def evicted(self, live: LiveSlice) -> None:
        """A worker goes: the lists shall know at once."""
        self.cache.changed(live.device.spec.id, at_once=True)

    def binding_dropped(self, live: LiveSlice, order: ins.BindingDropped) -> None:
        """A slice knows a binding no more."""
        for listener in self.listeners:
            listener(live, order)

    def happened(self, live: LiveSlice, order: ins.TurnBegan | ins.TurnOver | ins.WorkerLoaded) -> None:
        """Count it and pass it on."""
        name = live.device.spec.id
        match order:
            case ins.TurnOver():
                self.metrics.turn_seconds.labels(name).observe(order.turn_ns / 1e9)
                self.metrics.calls.labels(name).inc(order.calls)
                live.spawn(live.workers.measure(order.worker))
            case ins.WorkerLoaded():
                self.metrics.loads.labels(name, "failed" if order.failure else "ok").inc()
                if not order.failure:
                    self.metrics.load_seconds.labels(name).observe(order.load_ns / 1e9)
        for listener in self.listeners:
            listener(live, order)

    def _store_changed(self) -> None:
        # Called from the thread that wrote the package, too.
        self.on_stored()

    async def close(self) -> None:
        """End workers, zygotes and links."""
        for live in self.slices.values():
            await live.close()
        await self.zygotes.close()
        await self.cgroups.close()
        await self.cache.close()
        self.devices.close()
