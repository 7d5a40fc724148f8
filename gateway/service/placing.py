"""Early bindings: a slice asked for while the call is still here, if the scheduler's hints say it pays."""

from __future__ import annotations

import logging
import os
import socket

from gateway.core.binding_choice import binds_early
from proto.types.errors import SlicewiseError
from proto.types.placing import Place
from proto.wire.calls import Bound, SchedulerCalls

_log = logging.getLogger(__name__)

# The scheduler's own deadline fires first, since it can say why; ours is the guard behind it.
_GRACE_S = 0.5


class Placer:
    """Without a scheduler every call is bound by its broker, at its first model call."""

    def __init__(self, scheduler: str, credential: str) -> None:
        self._calls: SchedulerCalls | None = None
        if scheduler:
            who = f"gateway-{socket.gethostname()}-{os.getpid()}"
            self._calls = SchedulerCalls(scheduler, credential, who)

    async def start(self) -> None:
        """Begin connecting, in the background."""
        if self._calls is not None:
            await self._calls.start()

    async def close(self) -> None:
        """End the stream."""
        if self._calls is not None:
            await self._calls.close()

    def pays(self, worker: str, batch: int) -> bool:
        """Whether to bind a call of `worker` now."""
        return self._calls is not None and binds_early(self._calls.hint(worker), batch)[0]

    async def place(
        self, call_id: str, worker: str, batch: int, sla_ns: int, waited_ns: int, left_s: float
    ) -> Bound | None:
        """A binding within `left_s` seconds, or None where the broker must ask itself.

        Cancelling withdraws the request. Raises SlicewiseError (`queue_full`, `deadline_in_queue` ...).
        """
        if self._calls is None:
            return None
        place = Place(call_id=call_id, worker=worker, batch=batch, sla_ns=sla_ns, waited_ns=waited_ns)
        try:
            return await self._calls.place(place, max(0.001, left_s - _GRACE_S))
        except SlicewiseError as error:
            if error.code == "not_found":
                return None  # its models are not registered (any more): the first model call mends that
            if error.code in ("unauthorised", "forbidden"):
                # Our credential, not the caller's: the caller must not be asked for a password.
                _log.error("the scheduler refuses this gateway: %s", error)
                raise SlicewiseError("unavailable", "The scheduler does not accept this gateway.") from error
            raise

    def release(self, bound: Bound) -> None:
        """The invocation is over; never blocks, never raises."""
        if self._calls is not None:
            self._calls.release(bound.binding.call_id, bound.binding.id)
