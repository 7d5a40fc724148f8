"""The live driver of the core: a clock, a timer, and the carrying out of what the core says.

Everything here runs on the event loop without waiting, so events are handled in the order they came
and a binding leaves in the same breath as the Place arrived.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from proto.types.errors import SlicewiseError
from proto.types.placing import Binding
from proto.wire import convert
from proto.wire.credentials import SigningKey
from proto.wire.generated import slicewise_pb2 as pb
from scheduler.core import events as ev
from scheduler.core import instructions as todo
from scheduler.core.core import SchedulerCore
from scheduler.core.estimates import Profiles
from scheduler.core.ledger import LOST
from scheduler.service.catalogue import Catalogue
from scheduler.service.recording import Recorder
from scheduler.service.streams import Stream

log = logging.getLogger(__name__)

HOUSEKEEPING_S = 0.5


@dataclass(slots=True)
class Node:
    """A GPU manager that is here."""

    hello: pb.NodeHello
    stream: Stream


@dataclass(slots=True)
class Desk:
    """Owners (gateways, brokers) and nodes (GPU managers) by name, each with its open stream."""

    core: SchedulerCore
    profiles: Profiles
    catalogue: Catalogue
    key: SigningKey
    epoch: int
    binding_ttl_ns: int
    recorder: Recorder | None = None
    owners: dict[str, Stream] = field(default_factory=dict)
    nodes: dict[str, Node] = field(default_factory=dict)
    _tokens: dict[str, str] = field(default_factory=dict)
    _timer: asyncio.TimerHandle | None = None

    def now(self) -> int:
        """The core's clock, nanoseconds; it never runs backward."""
        return max(time.monotonic_ns(), self.core.state.now_ns)

    def tell(self, make: Callable[[int], ev.Event]) -> None:
        """Hand the core one event (`make` is given the time) and do what it says."""
        event = make(self.now())
        if self.recorder is not None:
            self.recorder.event(event)
        try:
            said = self.core.handle(event)
        except Exception as error:
            if self.recorder is not None:
                self.recorder.raised(error)
            raise
        if self.recorder is not None:
            self.recorder.said(said)
        for instruction in said:
            try:
                self._carry_out(instruction)
            except Exception:  # one bad message must not keep the others of this event back
                log.exception("cannot carry out %s", instruction)
        self._arm()

    async def keep_house(self) -> None:
        """Let time pass for the core, for ever."""
        while True:
            await asyncio.sleep(HOUSEKEEPING_S)
            self.tell(ev.Tick)
            if self.recorder is not None:
                self.recorder.flush()

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        due = self.core.next_timer()
        if due is not None:
            delay_s = max(0.0, (due - self.now()) / 1e9)
            self._timer = asyncio.get_running_loop().call_later(delay_s, self.tell, ev.Tick)

    # ------------------------------------------------------------------ carrying out

    def _carry_out(self, instruction: todo.Instruction) -> None:
        if isinstance(instruction, todo.Bind):
            self._bind(instruction)
        elif isinstance(instruction, todo.Refuse):
            error = SlicewiseError(instruction.code, instruction.message, instruction.retry_after_s or None)
            self.refuse(instruction.owner, instruction.call_id, error)
        elif isinstance(instruction, todo.Unbind):
            self._tokens.pop(instruction.binding_id, None)
            failure = pb.Failure(code=instruction.code, message=instruction.reason)
            unbind = pb.Unbind(binding_id=instruction.binding_id, failure=failure)
            self._to_node(instruction.node, pb.NodeDown(unbind=unbind), instruction.soon)
        elif isinstance(instruction, todo.TellOwner):
            failure = pb.Failure(code=instruction.code, message=instruction.reason)
            unbound = pb.Unbound(binding_id=instruction.binding_id, call_id=instruction.call_id, failure=failure)
            self._to_owner(instruction.owner, pb.CallDown(unbound=unbound))
            if instruction.code == LOST:
                self._to_carriers(instruction, unbound)
        elif isinstance(instruction, todo.Keep):
            items = [
                pb.KeepItem(worker=worker, queued=demand.queued, calls_per_s=demand.calls_per_s)
                for worker, demand in instruction.demand.items()
            ]
            self._to_node(instruction.node, pb.NodeDown(keep=pb.Keep(slice=instruction.slice, items=items)))

    def refuse(self, owner: str, call_id: str, error: SlicewiseError) -> None:
        """Tell an owner that its call gets no slice."""
        refused = pb.Refused(call_id=call_id, failure=convert.failure(error))
        self._to_owner(owner, pb.CallDown(refused=refused))

    def _bind(self, bind: todo.Bind) -> None:
        token = self._tokens.get(bind.binding_id) or self._sign(bind)
        bound = pb.Bound(
            call_id=bind.request.call_id, binding=token, skips=bind.skips, queued_ns=max(0, bind.queued_ns)
        )
        self._to_owner(bind.request.owner, pb.CallDown(bound=bound))
        if not bind.again:
            # On a hit there is nothing to begin with, and the call brings its binding along.
            self._to_node(bind.node, pb.NodeDown(prepare=self._prepare(bind, token)), soon=bind.hit)

    def _sign(self, bind: todo.Bind) -> str:
        r = bind.request
        node = self.nodes.get(bind.node)
        function = self.catalogue.functions.get(r.function)
        binding = Binding(
            id=bind.binding_id,
            epoch=self.epoch,
            call_id=r.call_id,
            worker=r.worker,
            slice=bind.slice,
            node=bind.node,
            door_path=node.hello.door_path if node else "",
            door_address=node.hello.door_address if node else "",
            uid=function.uid if function else 0,
            hit=bind.hit,
            false_miss=bind.false_miss,
            queued_ns=max(0, bind.queued_ns),
            expires_unix_ns=time.time_ns() + self.binding_ttl_ns,
            skips=bind.skips,
            batch=r.batch,
            reason=bind.reason,
        )
        token = convert.sign_binding(self.key, binding)
        self._tokens[bind.binding_id] = token
        return token

    def _prepare(self, bind: todo.Bind, token: str) -> pb.Prepare:
        worker = bind.request.worker
        models = self.catalogue.models_of(worker)
        sources = [
            pb.Source(digest=model.digest, addresses=addresses)
            for model in models
            if (addresses := self.catalogue.sources(bind.request.function, model.digest, bind.node))
        ]
        gap_ns, between_ns, calls = self.profiles.usual(worker)
        return pb.Prepare(
            binding=token,
            models=[convert.model_to_wire(model) for model in models],
            sources=sources,
            usual=pb.Usual(gap_ns=gap_ns, between_ns=between_ns, calls=calls),
            load_ns=self.profiles.load_ns(worker) if self.profiles.loaded(worker) else 0,
            held_bytes=self.profiles.measured_bytes(worker),
        )

    def forget_token(self, binding_id: str) -> None:
        """The binding ended by itself."""
        self._tokens.pop(binding_id, None)

    def drop_stale_tokens(self) -> None:
        """Tokens of bindings that ended on a path that names none (a node's own end)."""
        bound = self.core.ledger.bound
        for binding_id in [binding_id for binding_id in self._tokens if binding_id not in bound]:
            del self._tokens[binding_id]

    # ------------------------------------------------------------------ sending

    def _to_owner(self, owner: str, message: pb.CallDown) -> None:
        stream = self.owners.get(owner)
        if stream is not None:
            stream.send(message)

    def _to_carriers(self, lost: todo.TellOwner, unbound: pb.Unbound) -> None:
        """A gateway owns an early binding, but the call waits with one of the function's brokers."""
        carriers = f"replica:{lost.worker.rpartition('@')[0]}/"
        for owner in [owner for owner in self.owners if owner.startswith(carriers) and owner != lost.owner]:
            self._to_owner(owner, pb.CallDown(unbound=unbound))

    def _to_node(self, node: str, message: pb.NodeDown, soon: bool = False) -> None:
        here = self.nodes.get(node)
        if here is not None:
            here.stream.send(message, soon)

    def to_all_nodes(self, message: pb.NodeDown) -> None:
        """Tell every GPU manager."""
        for node in self.nodes.values():
            node.stream.send(message)
