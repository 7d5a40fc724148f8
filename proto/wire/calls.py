"""The client of `Scheduler.Calls`: how gateways and brokers ask for a slice.

Whoever sends a Place owns it. So a stream that breaks is nobody's failure here: the Place is kept and
sent again, with the seconds it has waited, as soon as a scheduler answers; only its own deadline, a
refusal or its owner ends it. What to do with a binding is left to the owner.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import dataclasses
import itertools
import json
import logging
import random
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import grpc
import grpc.aio

from proto.types.errors import SlicewiseError
from proto.types.placing import Binding, Place
from proto.wire import convert, peers
from proto.wire.generated import slicewise_pb2 as pb
from proto.wire.generated import slicewise_pb2_grpc as rpc

log = logging.getLogger(__name__)

FIRST_BACKOFF_S = 0.05
MAX_BACKOFF_S = 1.0  # a killed scheduler is back within a second or two; more would be felt by every caller
# The scheduler refuses at the deadline and says why; this is how long its refusal may be under way.
REFUSAL_GRACE_S = 0.1
# Measurements that wait for a scheduler; older ones go first, they only smooth a profile.
MAX_UNSENT_OBSERVED = 1000
# What nobody waits for waits itself, for a message to go with: a release only ends the book-keeping of a slice
# that was free when its turn ended, and measurements smooth a profile over many calls.
RELEASE_LINGER_S = 0.005
OBSERVED_LINGER_S = 0.1
MAX_TOGETHER = 100  # messages in one, far below what gRPC would cut
# Placements of one client that may wait at once. The scheduler's own queue limit is far below.
MAX_PENDING = 20_000


@dataclass(frozen=True, slots=True)
class Bound:
    """A binding and the signed token that proves it to the data door.

    `binding` was read from the token without checking the signature: it came over the scheduler's own
    stream, and the door checks it. `queued_ns` counts from the first Place, `skips` those that overtook.
    """

    token: str
    binding: Binding
    skips: int
    queued_ns: int


@dataclass(frozen=True, slots=True)
class Hint:
    """What decides between an early and a late binding. Nanoseconds; `known` is false before the first call."""

    worker: str
    gap_ns: int
    load_ns: int
    known: bool
    policy_needs_batch: bool


OnUnbound = Callable[[str, str, SlicewiseError], None]
OnHint = Callable[[Hint], None]


@dataclass(slots=True)
class _Waiting:
    place: Place
    since_ns: int
    answer: asyncio.Future[Bound]

    def message(self) -> pb.CallUp:
        """The Place as it stands now: waited longer, less time left."""
        passed = time.monotonic_ns() - self.since_ns
        left = max(1, self.place.deadline_ns - passed)
        now = dataclasses.replace(self.place, waited_ns=self.place.waited_ns + passed, deadline_ns=left)
        return pb.CallUp(place=convert.place_to_wire(now))


def read_token(token: str) -> Binding:
    """The binding inside a token, its signature unchecked."""
    body = token.partition(".")[0]
    claims: dict[str, Any] = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    return convert.read_binding(claims)


class SchedulerCalls:
    """One stream to the leading scheduler, kept open for ever.

    `who` names this client among all of its subject (it must stay the same over reconnects and differ
    from any other client's). `on_unbound(binding_id, call_id, error)` tells of bindings that the
    scheduler took back, `on_hint(hint)` of changed hints; both are called on the event loop.
    """

    def __init__(
        self,
        address: str,
        credential: str,
        who: str,
        *,
        on_unbound: OnUnbound | None = None,
        on_hint: OnHint | None = None,
    ) -> None:
        self._address = address
        self._credential = credential
        self._who = who
        self._on_unbound = on_unbound
        self._on_hint = on_hint
        self._waiting: dict[str, _Waiting] = {}
        self._held: dict[str, str] = {}  # binding id -> call id
        self._held_calls: dict[str, int] = {}  # call id -> bindings held
        self._hints: dict[str, Hint] = {}
        self._outbox: deque[pb.CallUp] = deque()
        self._observed: deque[pb.CallUp] = deque(maxlen=MAX_UNSENT_OBSERVED)
        self._wake = asyncio.Event()
        self._connected = False
        self._again = 0
        self._lingering: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def connected(self) -> bool:
        """Whether a scheduler is listening at this moment."""
        return self._connected

    async def start(self) -> None:
        """Begin connecting, in the background; returns at once."""
        self._task = asyncio.create_task(self._keep_connected(), name=f"calls of {self._who}")

    async def close(self) -> None:
        """End the stream; placements still waiting fail with `unavailable`."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        self._fail_all(SlicewiseError("unavailable", "This service is stopping."))

    async def place(self, place: Place, timeout_s: float) -> Bound:
        """Ask for a slice and wait for it, at most `timeout_s` seconds.

        Raises SlicewiseError with the scheduler's code (`queue_full`, `model_too_large` ...), with
        `deadline_in_queue` after `timeout_s`, and with `unauthorised` when the credential is refused.
        Cancelling the awaiting task withdraws the request.
        """
        if len(self._waiting) >= MAX_PENDING:
            raise SlicewiseError("queue_full", "Too many calls wait for a slice here.", 1.0)
        call_id = place.call_id
        if call_id in self._waiting or call_id in self._held_calls:  # a client may reuse its call ids
            self._again += 1
            call_id = f"{call_id}~{self._again}"
        loop = asyncio.get_running_loop()
        place = dataclasses.replace(place, call_id=call_id, deadline_ns=max(1, int(timeout_s * 1e9)))
        waiting = _Waiting(place, time.monotonic_ns(), loop.create_future())
        self._waiting[call_id] = waiting
        timer = loop.call_later(timeout_s + REFUSAL_GRACE_S, self._too_late, waiting, timeout_s)
        if self._connected:
            self._send(pb.CallUp(place=convert.place_to_wire(place)))
        try:
            return await waiting.answer
        except asyncio.CancelledError:
            if waiting.answer.done() and not waiting.answer.cancelled() and waiting.answer.exception() is None:
                self.release(call_id, waiting.answer.result().binding.id)  # bound in the very moment of cancelling
            else:
                self._cancel(call_id, "cancelled by its owner")
            raise
        finally:
            timer.cancel()
            self._waiting.pop(call_id, None)

    def release(self, call_id: str, binding_id: str) -> None:
        """The invocation is over, or does not want its binding; never blocks, never raises."""
        held = self._forget(binding_id)
        if self._connected:  # else the next hello says it
            self._outbox.append(pb.CallUp(release=pb.Release(call_id=held or call_id, binding_id=binding_id)))
            self._send_within(RELEASE_LINGER_S)

    def observed(self, worker: str, batch: int, gap_ns: int, between_ns: int, calls: int, total_ns: int) -> None:
        """Measurements of one finished invocation, nanoseconds; they feed the profile."""
        self._observed.append(
            pb.CallUp(
                observed=pb.Observed(
                    worker=worker, batch=batch, gap_ns=gap_ns, between_ns=between_ns, calls=calls, total_ns=total_ns
                )
            )
        )
        self._send_within(OBSERVED_LINGER_S)

    def hint(self, worker: str) -> Hint | None:
        """What the scheduler last said about this worker key, None if nothing yet."""
        return self._hints.get(worker)

    # ------------------------------------------------------------------ the stream

    async def _keep_connected(self) -> None:
        backoff_s = FIRST_BACKOFF_S
        async with peers.channel(self._address) as channel:
            stub = rpc.SchedulerStub(channel)
            while True:
                started = time.monotonic()
                try:
                    await self._converse(stub.Calls(metadata=peers.metadata(self._credential)))
                except grpc.aio.AioRpcError as error:
                    self._tell(error)
                except asyncio.InvalidStateError:
                    pass  # a write met the end of the stream; the next attempt says more
                finally:
                    self._connected = False
                if time.monotonic() - started > MAX_BACKOFF_S:
                    backoff_s = FIRST_BACKOFF_S
                await asyncio.sleep(backoff_s * random.uniform(0.5, 1.0))
                backoff_s = min(MAX_BACKOFF_S, backoff_s * 2)

    async def _converse(self, call: grpc.aio.StreamStreamCall) -> None:
        """One stream from hello to its end; raises AioRpcError when it breaks."""
        writer: asyncio.Task[None] | None = None
        try:
            await call.write(pb.CallUp(hello=pb.CallsHello(who=self._who, bindings=list(self._held))))
            # What was to be said about earlier bindings is in the hello; the waiting are told anew.
            self._outbox.clear()
            self._outbox.extend(waiting.message() for waiting in self._waiting.values())
            self._connected = True
            writer = asyncio.create_task(self._write(call), name=f"calls writer of {self._who}")
            async for message in call:
                self._receive(message)
        finally:
            self._connected = False
            if writer is not None:
                writer.cancel()
                with contextlib.suppress(asyncio.CancelledError, grpc.aio.AioRpcError, asyncio.InvalidStateError):
                    await writer
            call.cancel()

    async def _write(self, call: grpc.aio.StreamStreamCall) -> None:
        while True:
            self._wake.clear()
            if self._lingering is not None:
                self._lingering.cancel()
                self._lingering = None
            while said := [*itertools.islice(self._drain(), MAX_TOGETHER)]:
                first = said[0]
                first.more.extend(said[1:])
                await call.write(first)
            await self._wake.wait()

    def _drain(self) -> Iterator[pb.CallUp]:
        while self._outbox:
            yield self._outbox.popleft()
        while self._observed:
            yield self._observed.popleft()

    def _send(self, message: pb.CallUp) -> None:
        self._outbox.append(message)
        self._wake.set()

    def _send_within(self, linger_s: float) -> None:
        """Let what lies there go with the next message that somebody waits for, or alone after `linger_s`."""
        loop = asyncio.get_running_loop()
        due = loop.time() + linger_s
        if self._wake.is_set() or (self._lingering is not None and self._lingering.when() <= due):
            return
        if self._lingering is not None:
            self._lingering.cancel()
        self._lingering = loop.call_at(due, self._wake.set)

    def _receive(self, message: pb.CallDown) -> None:
        kind = message.WhichOneof("what")
        if kind == "bound":
            self._bound(message.bound)
        elif kind == "refused":
            waiting = self._waiting.get(message.refused.call_id)
            if waiting is not None and not waiting.answer.done():
                waiting.answer.set_exception(convert.error(message.refused.failure))
        elif kind == "unbound":
            unbound = message.unbound
            self._forget(unbound.binding_id)
            if self._on_unbound is not None:
                self._on_unbound(unbound.binding_id, unbound.call_id, convert.error(unbound.failure))
        elif kind == "hint":
            said = message.hint
            hint = Hint(said.worker, said.gap_ns, said.load_ns, said.known, said.policy_needs_batch)
            self._hints[hint.worker] = hint
            if self._on_hint is not None:
                self._on_hint(hint)

    def _bound(self, message: pb.Bound) -> None:
        binding = read_token(message.binding)
        waiting = self._waiting.get(message.call_id)
        if waiting is None or waiting.answer.done():  # nobody waits any more: give the slice back at once
            if binding.id not in self._held:
                self._send(pb.CallUp(release=pb.Release(call_id=message.call_id, binding_id=binding.id)))
            return
        self._held[binding.id] = message.call_id
        self._held_calls[message.call_id] = self._held_calls.get(message.call_id, 0) + 1
        waiting.answer.set_result(Bound(message.binding, binding, message.skips, message.queued_ns))

    # ------------------------------------------------------------------ endings

    def _forget(self, binding_id: str) -> str:
        call_id = self._held.pop(binding_id, "")
        left = self._held_calls.get(call_id, 0) - 1
        if left > 0:
            self._held_calls[call_id] = left
        else:
            self._held_calls.pop(call_id, None)
        return call_id

    def _cancel(self, call_id: str, reason: str) -> None:
        if self._connected:  # a broken stream has cancelled it already
            self._send(pb.CallUp(cancel=pb.Cancel(call_id=call_id, reason=reason)))

    def _too_late(self, waiting: _Waiting, timeout_s: float) -> None:
        if waiting.answer.done():
            return
        self._cancel(waiting.place.call_id, "deadline")
        text = f"No slice was free within {timeout_s:g} s."
        if not self._connected:
            text += " The scheduler cannot be reached."
        waiting.answer.set_exception(SlicewiseError("deadline_in_queue", text))

    def _tell(self, error: grpc.aio.AioRpcError) -> None:
        """Say why the stream ended; a refused credential ends what waits, for no reconnect will mend it."""
        if error.code() in (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED):
            log.error("the scheduler refused the stream: %s", error.details())
            code = "unauthorised" if error.code() is grpc.StatusCode.UNAUTHENTICATED else "forbidden"
            self._fail_all(SlicewiseError(code, error.details() or "The scheduler refused this credential."))
        else:
            log.info("the stream to the scheduler ended: %s %s", error.code().name, error.details())

    def _fail_all(self, error: SlicewiseError) -> None:
        for waiting in self._waiting.values():
            if not waiting.answer.done():
                waiting.answer.set_exception(error)
