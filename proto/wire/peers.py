"""gRPC as Slicewise uses it: channels with deadlines and keepalive, servers that know who speaks.

A subject is `service:NAME` (launcher, gateway, scheduler, cache_manager, gpu_manager, host, cli) or
`replica:NAME.NAMESPACE`; the server interceptor verifies it once a call and leaves it in `caller`.
"""

from __future__ import annotations

import contextvars
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import grpc
import grpc.aio

from proto.types.errors import SlicewiseError
from proto.wire.credentials import Trust

CALL_TIMEOUT_S = 5.0  # a unary control call that takes longer has lost its peer
MAX_MESSAGE_BYTES = 8 * 1024 * 1024  # payloads are cut into chunks of CHUNK_BYTES below it
CHUNK_BYTES = 2 * 1024 * 1024

_OPTIONS: list[tuple[str, int]] = [
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
    ("grpc.so_reuseport", 0),  # a second launcher must fail, not share the port
    # A peer that the launcher restarts is back within a second; gRPC's own back-off would wait two minutes.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1_000),
]

caller: contextvars.ContextVar[str] = contextvars.ContextVar("caller", default="")


def channel(address: str) -> grpc.aio.Channel:
    """An asyncio channel to host:port."""
    return grpc.aio.insecure_channel(address, options=_OPTIONS)


def metadata(credential: str) -> tuple[tuple[str, str], ...]:
    """What every call carries, to pass as `metadata=`."""
    return (("authorization", f"Bearer {credential}"),)


def verify_subject(trust: Trust, token: str) -> str:
    """The subject of a service's or a replica's credential; raises SlicewiseError `unauthorised`."""
    now = time.time_ns()
    try:
        claims = trust.verify(token, "platform", now)
    except SlicewiseError:
        claims = trust.verify(token, "replicas", now)
        if not str(claims.get("sub", "")).startswith("replica:"):
            raise SlicewiseError("unauthorised", "A replica's key signs replicas only.") from None
    return str(claims["sub"])


class _Doorkeeper(grpc.aio.ServerInterceptor):  # type: ignore[misc]
    """Refuses calls without a valid credential or whose subject may not call that method."""

    def __init__(self, trust: Trust, allowed: Mapping[str, tuple[str, ...]]) -> None:
        self._trust = trust
        self._allowed = allowed

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[grpc.RpcMethodHandler]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> grpc.RpcMethodHandler:
        handler = await continuation(handler_call_details)
        if handler is None:
            return handler
        given = dict(handler_call_details.invocation_metadata or ())
        token = str(given.get("authorization", "")).removeprefix("Bearer ")
        method = handler_call_details.method.rpartition("/")[2]
        try:
            subject = verify_subject(self._trust, token)
            prefixes = self._allowed.get(method, ("service:",))
            if not subject.startswith(prefixes):
                raise SlicewiseError("forbidden", f"{subject} may not call {method}.")
        except SlicewiseError as error:
            return _refusal(handler, error)
        caller.set(subject)
        return handler


def _refusal(handler: grpc.RpcMethodHandler, error: SlicewiseError) -> grpc.RpcMethodHandler:
    code = grpc.StatusCode.UNAUTHENTICATED if error.code == "unauthorised" else grpc.StatusCode.PERMISSION_DENIED

    async def refuse(_request: Any, context: grpc.aio.ServicerContext) -> None:
        await context.abort(code, error.message)

    async def refuse_stream(_request: Any, context: grpc.aio.ServicerContext) -> Any:
        await context.abort(code, error.message)
        yield

    kinds = {
        (False, False): (grpc.unary_unary_rpc_method_handler, refuse),
        (False, True): (grpc.unary_stream_rpc_method_handler, refuse_stream),
        (True, False): (grpc.stream_unary_rpc_method_handler, refuse),
        (True, True): (grpc.stream_stream_rpc_method_handler, refuse_stream),
    }
    make, behaviour = kinds[(handler.request_streaming, handler.response_streaming)]
    return make(behaviour, handler.request_deserializer, handler.response_serializer)


def server(trust: Trust, allowed: Mapping[str, tuple[str, ...]] | None = None) -> grpc.aio.Server:
    """An asyncio server. `allowed` maps a method's name to the subject prefixes that may call it;
    a method that is not in it is for services only."""
    return grpc.aio.server(interceptors=[_Doorkeeper(trust, allowed or {})], options=_OPTIONS)


def bind(grpc_server: grpc.aio.Server, address: str) -> int:
    """Bind host:port (0: any free) and return the port; raises SlicewiseError `conflict` if it is taken."""
    try:
        port = grpc_server.add_insecure_port(address)
    except RuntimeError as error:
        raise SlicewiseError("conflict", f"{address} is in use by another process.") from error
    if port == 0:
        raise SlicewiseError("conflict", f"{address} is in use by another process.")
    return int(port)
