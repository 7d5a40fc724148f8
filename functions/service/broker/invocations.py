"""Calls in flight of a GPU function: which binding each has, what its model calls cost, how it ends.

An invocation is bound early (the gateway sent the binding along) or at its first model call, then once for
all its threads. A call that fails on a slice before it changed anything may be tried on another: that
budget is here, and the deadline that no retry passes.
"""

from __future__ import annotations

import asyncio
import random
import secrets
import time
from typing import Any

from functions.service import durations
from functions.service.broker.doors import Answer, Doors, failure_of
from functions.service.orders import BrokerOrder
from proto.types import headers
from proto.types.errors import REPEATABLE, STATUS, SlicewiseError
from proto.types.placing import Place
from proto.wire import frames
from proto.wire.calls import Bound, SchedulerCalls, read_token

RETRIES = 2  # of one model call, each on another slice
RETRY_PAUSE_S, RETRY_PAUSE_LIMIT_S = 0.05, 0.5
# Nothing ran yet when these come back, so they may be tried again whatever the door says of the call.
BEFORE_ANYTHING = frozenset({"binding_gone", "stale_epoch"})
# Without a limit of the function's own: how long one model call may take in all.
NO_LIMIT_S = 3600.0
# Model calls end so much before the call that makes them: a refusal has to pass the handler before whoever waits
# outside gives up, or nobody would learn where the time went.
ANSWER_S, ANSWER_SHARE = 0.5, 0.1
# A call that belongs to no request keeps its binding this long, for the next of the same thread.
LINGER_S = 0.1


class Invocation:
    """One HTTP call of the function, or the calls of one thread that belong to none. Times: nanoseconds."""

    def __init__(self, owner: Invocations, call_id: str, deadline_ns: int, limit: str = "") -> None:
        """`limit` names what sets the deadline."""
        self.token = secrets.token_hex(12).encode()
        self._owner = owner
        self._call_id = call_id
        self._deadline_ns = deadline_ns
        self._limit = limit
        self._started_ns = time.monotonic_ns()
        self._bound: Bound | None = None
        self._early_id = ""
        self._used: dict[str, Bound] = {}
        self._placing: asyncio.Task[Bound] | None = None
        self._running: set[asyncio.Task[Any]] = set()
        self._asking: dict[asyncio.Task[Any], str] = {}  # calls at a door -> the binding they have
        self._given_up: dict[asyncio.Task[Any], SlicewiseError] = {}
        self._changed_state = False
        self._finished = False
        self.batch = 0
        self.sla_ns = 0
        self.calls = 0
        self.before_s = 0.0  # what it had waited for its early binding before it came here
        self._first_ns = 0
        self._last_end_ns = 0
        self._between_ns = 0
        self._queue_s = self._load_s = self._infer_s = 0.0
        self._slice = self._cache = ""
        self._last_error: SlicewiseError | None = None

    def bind_early(self, token: str, queued_s: float) -> None:
        """Take over the binding that the gateway sent; one that cannot be read is as good as none."""
        try:
            binding = read_token(token)
        except (ValueError, KeyError, TypeError):
            return
        self._bound = Bound(token, binding, binding.skips, int(queued_s * 1e9))
        self._early_id = binding.id
        self._used[binding.id] = self._bound
        self._owner.holders[binding.id] = self
        self.before_s = queued_s
        self._queue_s += queued_s

    # ------------------------------------------------------------------ model calls

    async def infer(self, header: frames.Header, fds: list[int]) -> Answer:
        """One model call. The answer may be a failure; raises SlicewiseError when none could be had."""
        task = asyncio.current_task()
        assert task is not None
        self._running.add(task)
        now = time.monotonic_ns()
        if self.calls == 0:
            self._first_ns = now
        elif self._last_end_ns:
            self._between_ns += max(0, now - self._last_end_ns)
        self.calls += 1
        try:
            answer = await self._infer(header, fds)
            if answer[0].get("ok"):
                self._last_error = None
            else:
                self._last_error = error = self._named(failure_of(answer[0]))
                answer[0]["error"] = {**(answer[0].get("error") or {}), "message": error.message}
            return answer
        except SlicewiseError as error:
            named = self._last_error = self._owner.errors[error.code] = self._named(error)
            raise named from error
        finally:
            self._last_end_ns = time.monotonic_ns()
            self._running.discard(task)
            if self._finished and not self._running:
                self._let_go()

    def _named(self, error: SlicewiseError) -> SlicewiseError:
        """A missed deadline with the limit it comes from."""
        if not self._limit or not error.code.startswith("deadline_in_"):
            return error
        return SlicewiseError(error.code, f"{error.message.rstrip('.')} ({self._limit}).", error.retry_after_s)

    async def _infer(self, header: frames.Header, fds: list[int]) -> Answer:
        avoid: list[str] = []
        batch = int(header.get("batch") or 0)
        request = {key: value for key, value in header.items() if key not in ("call", "id")}
        failures = 0
        pause_s = RETRY_PAUSE_S
        while True:
            bound = await self._binding(batch, avoid)
            left_s = self._left_s()
            try:
                request |= {"binding": bound.token, "deadline_s": round(left_s, 3)}
                answer, received = await self._ask(bound, request, fds, left_s)
            except SlicewiseError as error:
                if error.code != "slice_lost":
                    raise
                failed = error
            else:
                if answer.get("ok"):
                    self._count(bound, answer)
                    return answer, received
                failed = failure_of(answer)
                if failed.code not in BEFORE_ANYTHING and not (failed.code in REPEATABLE and answer.get("repeatable")):
                    return answer, received
                frames.close_fds(received)
            # To be bound anew is no failure, and happens as often as what runs before it overruns: only time ends that.
            failures += failed.code not in BEFORE_ANYTHING
            self._try_again(failed, failures, bool(header.get("stream")))
            avoid.append(bound.binding.slice)
            self._drop(bound)
            await asyncio.sleep(min(self._left_s(), pause_s * random.uniform(0.5, 1.5)))
            pause_s = min(RETRY_PAUSE_LIMIT_S, 2 * pause_s)

    async def _ask(self, bound: Bound, request: frames.Header, fds: list[int], left_s: float) -> Answer:
        task = asyncio.current_task()
        assert task is not None
        self._asking[task] = bound.binding.id
        try:
            return await self._owner.doors.of(bound.binding).ask(request, fds, left_s)
        except asyncio.CancelledError:
            lost = self._given_up.pop(task, None)
            if lost is None or task.uncancel():
                raise
            raise lost from None
        finally:
            del self._asking[task]

    def _try_again(self, failed: SlicewiseError, failures: int, streams: bool) -> None:
        """Return if a call that failed on its slice may be tried on another; raise what its caller is told if not."""
        harmless = failed.code in BEFORE_ANYTHING
        if streams and not harmless:
            raise failed  # its caller has heard a part of the answer, perhaps
        if self._changed_state:
            if harmless:
                text = f"The slice gave up what this invocation had made on it: {failed.message}"
                raise SlicewiseError("slice_lost", text) from failed
            raise failed
        if self._left_s() <= RETRY_PAUSE_S:
            if harmless:
                text = f"No slice ran the call in time; the last one gave it back: {failed.message}"
                raise SlicewiseError("deadline_in_queue", text) from failed
            raise failed
        if failures > RETRIES:
            raise failed

    def _count(self, bound: Bound, answer: frames.Header) -> None:
        phases = answer.get("phases") or {}
        self._queue_s += float(phases.get("queue_s", 0.0))
        self._load_s += float(phases.get("load_s", 0.0))
        self._infer_s += float(phases.get("infer_s", 0.0))
        self._slice = str(answer.get("slice") or bound.binding.slice)
        if self._cache != "miss":
            self._cache = str(answer.get("cache") or "")
        if answer.get("state"):
            self._changed_state = True

    async def _binding(self, batch: int, avoid: list[str]) -> Bound:
        if self._bound is not None:
            return self._bound
        if self._placing is None:  # one Place for all threads of the invocation
            self._placing = asyncio.create_task(self._place(batch, tuple(avoid)), name="place")
            self._placing.add_done_callback(self._placed)
        return await asyncio.shield(self._placing)

    def _placed(self, placing: asyncio.Task[Bound]) -> None:
        self._placing = None
        if not placing.cancelled():
            placing.exception()  # whoever waited has it; nobody waiting is no news

    async def _place(self, batch: int, avoid: tuple[str, ...]) -> Bound:
        calls = self._owner.calls
        if calls is None:
            raise SlicewiseError("unavailable", "This node's function host knows no scheduler.")
        place = Place(
            call_id=self._call_id,
            worker=self._owner.worker,
            batch=self.batch or batch,
            sla_ns=self.sla_ns,
            late=True,
            avoid=avoid,
        )
        bound = await calls.place(place, self._left_s())
        if self._finished and not self._running:
            calls.release(self._call_id, bound.binding.id)
            raise SlicewiseError("binding_gone", "The call was over before it was bound.")
        self._bound = bound
        self._used[bound.binding.id] = bound
        self._owner.holders[bound.binding.id] = self
        self._queue_s += bound.queued_ns / 1e9
        return bound

    def _drop(self, bound: Bound) -> None:
        if self._bound is bound:
            self._bound = None
        self._end(bound)

    def _end(self, bound: Bound) -> None:
        binding = bound.binding
        if self._used.pop(binding.id, None) is None:
            return
        self._owner.holders.pop(binding.id, None)
        self._owner.doors.of(binding).tell({"op": "end", "binding": bound.token})
        if binding.id != self._early_id and self._owner.calls is not None:
            self._owner.calls.release(binding.call_id, binding.id)

    def unbound(self, binding_id: str, error: SlicewiseError) -> None:
        """The scheduler took a binding back; the next model call asks for another.

        Calls that run on a lost slice would wait there until their deadline: they fail as if its door had hung up.
        """
        if self._bound is not None and self._bound.binding.id == binding_id:
            self._bound = None
        if error.code == "slice_lost":
            for task in [task for task, used in self._asking.items() if used == binding_id]:
                self._given_up[task] = error
                task.cancel()

    def _left_s(self) -> float:
        return max(0.001, (self._deadline_ns - time.monotonic_ns()) / 1e9)

    @property
    def last_end_ns(self) -> int:
        """When its last model call ended; 0 while one runs or before any."""
        return 0 if self._running else self._last_end_ns

    # ------------------------------------------------------------------ its answer and its end

    def escaped(self, status: int, raised: str) -> SlicewiseError | None:
        """The platform's error behind a 500, if that is what the function's answer comes from.

        Our template says which error its handler let pass (`raised`). A server of the user's own cannot; there
        a 500 right after a model call that the platform failed is taken for it. Any other status is the function's.
        """
        if status != 500:
            return None
        error = self._last_error
        if raised:
            if error is None or error.code != raised:
                error = self._owner.errors.get(raised)
        elif self._owner.template:
            return None
        return error if error is not None and STATUS.get(error.code, 500) != 500 else None

    def answer_headers(self) -> list[tuple[bytes, bytes]]:
        """Slice, cache and phases, as far as they are known when the answer begins."""
        name, cache = self._slice, self._cache
        if not name and self._asking and self._bound is not None:  # the answer begins while its model still runs
            name, cache = self._bound.binding.slice, "hit" if self._bound.binding.hit else "miss"
        if not name:
            return []
        return [
            (b"x-slicewise-slice", name.encode()),
            (b"x-slicewise-cache", cache.encode()),
            (b"x-slicewise-queue-seconds", b"%.6f" % self._queue_s),
            (b"x-slicewise-load-seconds", b"%.6f" % self._load_s),
            (b"x-slicewise-infer-seconds", b"%.6f" % self._infer_s),
        ]

    def finish(self, abandoned: bool = False) -> None:
        """The HTTP call is over. Abandoned: nobody wants its model calls any more, queued or running."""
        self._finished = True
        self._owner.forget(self)
        if abandoned:
            for task in self._running:
                task.cancel()
            if self._placing is not None:
                self._placing.cancel()
        if not self._running:
            self._let_go()

    def _let_go(self) -> None:
        for bound in list(self._used.values()):
            self._end(bound)
        self._bound = None
        calls = self._owner.calls
        if self.calls and calls is not None:
            between_ns = self._between_ns // max(1, self.calls - 1)
            total_ns = time.monotonic_ns() - self._started_ns
            gap_ns = self._first_ns - self._started_ns
            calls.observed(self._owner.worker, self.batch, gap_ns, between_ns, self.calls, total_ns)


class Invocations:
    """All calls in flight of one replica, found by their token."""

    def __init__(self, order: BrokerOrder, doors: Doors, calls: SchedulerCalls | None) -> None:
        self.worker = f"{order.function}.{order.namespace}@{order.revision}"
        self.template = bool(order.upstream_socket)
        self.doors = doors
        self.calls = calls
        self.holders: dict[str, Invocation] = {}
        self.errors: dict[str, SlicewiseError] = {}  # the last of each code, for answers that name only the code
        self._in_flight: dict[str, Invocation] = {}

    def begin(self, platform: dict[bytes, bytes], limit_s: float) -> Invocation:
        """A new HTTP call; `platform` are the headers that the gateway sent for us, `limit_s` 0 for none."""
        limit = f"exec_timeout is {limit_s:g} s" if limit_s else ""
        limit_s = limit_s or NO_LIMIT_S
        deadline_s = _number(platform.get(headers.DEADLINE))
        if 0 < deadline_s < limit_s:
            limit_s, limit = deadline_s, f"the gateway's upstream_timeout left it {deadline_s:.3g} s"
        call_id = platform.get(b"x-call-id", b"").decode("latin-1") or secrets.token_hex(16)
        inner_s = limit_s - min(ANSWER_S, ANSWER_SHARE * limit_s)
        invocation = Invocation(self, call_id, time.monotonic_ns() + int(inner_s * 1e9), limit)
        invocation.batch = int(_number(platform.get(headers.BATCH)))
        invocation.sla_ns = int(_nanoseconds(platform.get(headers.SLA)))
        early = platform.get(headers.BINDING)
        if early:
            invocation.bind_early(early.decode("latin-1"), _number(platform.get(headers.QUEUED)))
        self._in_flight[invocation.token.decode()] = invocation
        return invocation

    def find(self, token: str) -> Invocation | None:
        """The call with this token; the only one there is where the token says nothing; else None."""
        found = self._in_flight.get(token)
        if found is None and len(self._in_flight) == 1:
            return next(iter(self._in_flight.values()))
        return found

    def anonymous(self) -> Invocation:
        """Model calls that belong to no HTTP call that we know."""
        call_id = f"anonymous-{secrets.token_hex(12)}"
        return Invocation(self, call_id, time.monotonic_ns() + int(NO_LIMIT_S * 1e9))

    def forget(self, invocation: Invocation) -> None:
        """Its token means nothing from now on."""
        self._in_flight.pop(invocation.token.decode(), None)

    def unbound(self, binding_id: str, _call_id: str, error: SlicewiseError) -> None:
        """For SchedulerCalls: a binding was taken back."""
        holder = self.holders.get(binding_id)
        if holder is not None:
            holder.unbound(binding_id, error)


def _number(value: bytes | None) -> float:
    try:
        return max(0.0, float(value or 0))
    except ValueError:
        return 0.0


def _nanoseconds(value: bytes | None) -> float:
    return durations.seconds((value or b"").decode("latin-1"), 0.0) * 1e9
