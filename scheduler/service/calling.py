"""`Scheduler.Calls`: gateways and brokers, each with one stream, and the hints they are given."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from dataclasses import replace

import grpc
import grpc.aio

from proto.types.errors import SlicewiseError
from proto.types.placing import Place
from proto.wire import convert, peers
from proto.wire.generated import slicewise_pb2 as pb
from scheduler.core import events as ev
from scheduler.service.desk import Desk
from scheduler.service.streams import Stream

log = logging.getLogger(__name__)

REPLICA = "replica:"
# A function is deployed in etcd before its first call; the news may reach us a moment after the call.
UNKNOWN_FUNCTION_S = 2.0
_HINT_TOLERANCE = 0.2  # a hint that moved less decides nothing


class Calls:
    """Who may place what, and what they are told."""

    def __init__(self, desk: Desk, max_wait_ns: int) -> None:
        self._desk = desk
        self._max_wait_ns = max_wait_ns
        self._early: dict[tuple[str, str], asyncio.TimerHandle] = {}
        self._early_places: dict[tuple[str, str], Place] = {}
        self._hints: dict[str, pb.Hint] = {}

    async def converse(self, requests: AsyncIterator[pb.CallUp], context: grpc.aio.ServicerContext) -> None:
        """One stream, from its hello to its end."""
        subject = peers.caller.get()
        first = await anext(aiter(requests), None)
        if first is None or first.WhichOneof("what") != "hello" or not first.hello.who:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "The first message must be a hello that names you.")
            return
        owner = f"{subject}/{first.hello.who}"
        async with Stream(context, owner) as stream:
            self._desk.owners[owner] = stream  # a second stream of one owner takes the first one's place
            bindings = tuple(first.hello.bindings)
            self._desk.tell(lambda now: ev.OwnerGone(now, owner))
            self._desk.tell(lambda now: ev.OwnerBack(now, owner, bindings))
            for hint in self._hints.values():
                self._send_hint(owner, stream, hint)
            try:
                async for message in requests:
                    self._hear(owner, subject, message)
                    for later in message.more:
                        self._hear(owner, subject, later)
            finally:
                if self._desk.owners.get(owner) is stream:
                    del self._desk.owners[owner]
                    self._forget_early(owner)
                    self._desk.tell(lambda now: ev.OwnerGone(now, owner))

    def _hear(self, owner: str, subject: str, message: pb.CallUp) -> None:
        kind = message.WhichOneof("what")
        if kind == "place":
            self._place(owner, subject, convert.place_from_wire(message.place))
        elif kind == "cancel":
            call_id = message.cancel.call_id
            self._drop_early(owner, call_id)
            self._desk.tell(lambda now: ev.Cancelled(now, owner, call_id))
        elif kind == "release":
            binding_id = message.release.binding_id
            self._desk.tell(lambda now: ev.Released(now, owner, binding_id))
            self._desk.forget_token(binding_id)
        elif kind == "observed":
            seen = message.observed
            if _may(subject, seen.worker):
                self._desk.profiles.learn_invocation(seen.worker, seen.gap_ns, seen.between_ns, seen.calls)
                self.refresh_hint(seen.worker)

    # ------------------------------------------------------------------ placing

    def _place(self, owner: str, subject: str, place: Place) -> None:
        catalogue = self._desk.catalogue
        function = place.worker.rpartition("@")[0]
        if not function or not place.call_id:
            error = SlicewiseError("bad_request", f"{place.worker!r} is no worker key (NAME.NAMESPACE@REVISION).")
            self._desk.refuse(owner, place.call_id, error)
            return
        if not _may(subject, place.worker):
            error = SlicewiseError("forbidden", f"{subject} may not place calls of {function}.")
            self._desk.refuse(owner, place.call_id, error)
            return
        place = replace(
            place,
            deadline_ns=place.deadline_ns or self._max_wait_ns,
            waited_ns=max(0, place.waited_ns),
            skips=max(0, place.skips),
        )
        if catalogue.watched and function not in catalogue.functions:
            self._wait_for_function(owner, place, function)
            return
        self._tell_placed(owner, place)

    def _tell_placed(self, owner: str, place: Place) -> None:
        """A broker knows the SLA only where the client sent one; else the function's own holds."""
        known = self._desk.catalogue.functions.get(place.worker.rpartition("@")[0])
        if known is not None and not place.sla_ns:
            place = replace(place, sla_ns=known.sla_ns)
        self._desk.tell(lambda now: ev.Placed(now, owner, place))

    def _wait_for_function(self, owner: str, place: Place, function: str) -> None:
        key = (owner, place.call_id)
        if key in self._early:
            return

        def refuse() -> None:
            self._drop_early(*key)
            self._desk.refuse(owner, place.call_id, SlicewiseError("not_found", f"{function} is not deployed."))

        wait_s = min(UNKNOWN_FUNCTION_S, place.deadline_ns / 1e9)
        self._early[key] = asyncio.get_running_loop().call_later(wait_s, refuse)
        self._early_places[key] = place

    def function_known(self, function: str) -> None:
        """A function appeared: place what waited for it."""
        for key, place in list(self._early_places.items()):
            if place.worker.rpartition("@")[0] == function:
                self._drop_early(*key)
                self._tell_placed(key[0], place)

    def _drop_early(self, owner: str, call_id: str) -> None:
        timer = self._early.pop((owner, call_id), None)
        if timer is not None:
            timer.cancel()
            del self._early_places[owner, call_id]

    def _forget_early(self, owner: str) -> None:
        for key in [key for key in self._early if key[0] == owner]:
            self._drop_early(*key)

    # ------------------------------------------------------------------ hints

    def refresh_hint(self, worker: str) -> None:
        """Tell everyone concerned if what is known of a worker changed enough to matter."""
        profiles = self._desk.profiles
        hint = pb.Hint(
            worker=worker,
            gap_ns=profiles.gap_ns(worker),
            load_ns=profiles.load_ns(worker),
            known=profiles.known(worker) and profiles.loaded(worker),
            policy_needs_batch=self._desk.core.policy.needs_batch,
        )
        before = self._hints.get(worker)
        if before is not None and _alike(before, hint):
            return
        self._hints[worker] = hint
        for owner, stream in self._desk.owners.items():
            self._send_hint(owner, stream, hint)

    def refresh_all_hints(self) -> None:
        """After a change of policy, or of everything."""
        for worker in self._desk.profiles.workers:
            self.refresh_hint(worker)

    def forget_hint(self, worker: str) -> None:
        """Nobody deploys it any more."""
        self._hints.pop(worker, None)

    @staticmethod
    def _send_hint(owner: str, stream: Stream, hint: pb.Hint) -> None:
        if _may(owner.partition("/")[0], hint.worker):
            stream.send(pb.CallDown(hint=hint))


def _may(subject: str, worker: str) -> bool:
    """A replica speaks for its own function only, a service for all."""
    if not subject.startswith(REPLICA):
        return True
    return subject.removeprefix(REPLICA) == worker.rpartition("@")[0]


def _alike(a: pb.Hint, b: pb.Hint) -> bool:
    def near(x: int, y: int) -> bool:
        return abs(x - y) <= _HINT_TOLERANCE * max(x, y) or abs(x - y) < 1_000_000

    same = a.known == b.known and a.policy_needs_batch == b.policy_needs_batch
    return same and near(a.gap_ns, b.gap_ns) and near(a.load_ns, b.load_ns)
