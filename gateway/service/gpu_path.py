"""A GPU function's call: the whole body first, then a replica, then perhaps a slice, then the broker.

The binding is released whatever happens; cancelling at any point (the caller left, the deadline
passed) withdraws a request for a slice and closes the connection to the broker, which frees the rest.
"""

from __future__ import annotations

from uvicorn._types import ASGISendCallable

from gateway.core import invocation
from gateway.core.invocation import Phase
from gateway.service.call import Call
from gateway.service.client import Client
from gateway.service.entries import Replica
from gateway.service.metrics import Metrics
from gateway.service.placing import Placer
from gateway.service.recording import Recorder
from gateway.service.sending import Sender
from gateway.service.spool import Spool, Spooled
from proto.types import headers
from proto.types.errors import SlicewiseError
from proto.types.headers import Headers
from proto.wire.calls import Bound
from proto.wire.http.pool import Answer

_QUEUE, _LOAD, _INFER = (b"x-slicewise-queue-seconds", b"x-slicewise-load-seconds", b"x-slicewise-infer-seconds")


class GpuPath:
    """Serves calls of functions that bear the GPU flag."""

    def __init__(
        self, sender: Sender, spool: Spool, placer: Placer, metrics: Metrics, recorder: Recorder | None = None
    ) -> None:
        self._sender = sender
        self._spool = spool
        self._placer = placer
        self._metrics = metrics
        self._recorder = recorder

    async def serve(self, call: Call, client: Client, send: ASGISendCallable) -> int:
        """The status that was sent; raises Gone, SlicewiseError, TimeoutError."""
        batch = invocation.batch(call.header(headers.BATCH))
        sla_ns = invocation.sla_ns(call.header(headers.SLA), call.entry.record.sla_ns)
        if self._recorder is not None:
            self._recorder.note(call, batch, sla_ns)
        spooled = await self._spool.take(client, call.length())
        try:
            call.guard.watch_client()
            replica = await self._sender.secure(call)
            answer = await self._bound(call, replica, spooled, batch, sla_ns, send)
        finally:
            spooled.close()
        self._measure(call, answer)
        return answer.status

    async def _bound(
        self, call: Call, replica: Replica, spooled: Spooled, batch: int, sla_ns: int, send: ASGISendCallable
    ) -> Answer:
        record = call.entry.record
        bound: Bound | None = None
        # A replica of an older generation runs older code: only its own broker knows what to ask for.
        if replica.generation >= record.generation and self._placer.pays(record.worker, batch):
            call.enter(Phase.QUEUE)
            try:
                bound = await self._placer.place(
                    call.call_id, record.worker, batch, sla_ns, call.taken_ns(), call.left_s()
                )
            except SlicewiseError as error:
                if error.code != "deadline_in_queue":
                    raise
                raise invocation.too_late(call.phase, call.entry.full_name, call.limit_s) from error
        try:
            call.enter(Phase.CALL)
            extra: Headers = [(headers.DEADLINE, b"%.6f" % call.left_s())]
            if bound is not None:
                extra.append((headers.BINDING, bound.token.encode()))
                extra.append((headers.QUEUED, b"%.6f" % (bound.queued_ns / 1e9)))
            return await self._sender.send(call, replica, extra, spooled.body(), spooled.length, send)
        finally:
            if bound is not None:
                self._placer.release(bound)

    def _measure(self, call: Call, answer: Answer) -> None:
        seconds = {_QUEUE: 0.0, _LOAD: 0.0, _INFER: 0.0}
        for name, value in answer.headers:
            if name in seconds:
                try:
                    seconds[name] = float(value)
                except ValueError:
                    continue
        self._metrics.phases(call.entry.full_name, seconds[_QUEUE], seconds[_LOAD], seconds[_INFER], call.taken_s())
