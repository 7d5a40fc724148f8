"""One authenticated channel to etcd, and what its failures mean to Slicewise.

etcd's simple tokens live in the server's memory: they are gone after a restart and after five idle
minutes. So a token is not refreshed by the clock but whenever etcd says it does not know it, once
for all calls that wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

import grpc
import grpc.aio
from etcd3aio.auth import AuthService
from etcd3aio.connections import ConnectionManager
from etcd3aio.errors import EtcdError, EtcdPermissionDeniedError, EtcdUnauthenticatedError
from etcd3aio.kv import KVService
from etcd3aio.lease import LeaseService
from etcd3aio.maintenance import MaintenanceService
from etcd3aio.watch import WatchService

from proto.types.errors import SlicewiseError

Answer = TypeVar("Answer")

# etcd on one machine answers in about a millisecond; one that has not after this long is away.
CALL_TIMEOUT_S = 3.0
# gRPC's own back-off grows to two minutes; an etcd that the launcher restarts is back within two seconds.
_RECONNECT_MS = (
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1_000),
)
# etcd 3.5 answers INVALID_ARGUMENT with these sentences where the cure is a fresh token as well.
_STALE = ("invalid auth token", "revision of auth store is old", "user name is empty")


class Connection:
    """The services of one etcd, spoken to as one user ("" while authentication is off)."""

    def __init__(self, address: str, user: str = "", password: str = "", timeout_s: float = CALL_TIMEOUT_S) -> None:
        self.address = address
        self.timeout_s = timeout_s
        self._user = user
        self._password = password
        manager = ConnectionManager([address])
        manager.grpc_options = [*manager.grpc_options, *_RECONNECT_MS]
        self._channel: grpc.aio.Channel = manager.get_channel()
        self.auth = AuthService(self._channel)
        self.kv = KVService(self._channel)
        self.leases = LeaseService(self._channel)
        self.watches = WatchService(self._channel, reconnect_backoff_seconds=0.1, max_reconnect_backoff_seconds=1.0)
        self.maintenance = MaintenanceService(self._channel)
        self._authenticating = asyncio.Lock()
        self._token = ""
        self.closed = False

    async def close(self) -> None:
        """End the channel; calls in flight fail."""
        self.closed = True
        await self._channel.close(None)

    async def authenticate(self, stale: str = "") -> None:
        """Fetch a token, unless another call has replaced the `stale` one already.

        Raises SlicewiseError `unauthorised` for a wrong password, `unavailable` when etcd is away.
        """
        if not self._user:
            return
        async with self._authenticating:
            if self._token != stale:
                return
            async with self._translated("authenticate"):
                answer = await self.auth.authenticate(self._user, self._password, timeout=self.timeout_s)
            self._token = answer.token
            for service in (self.auth, self.kv, self.leases, self.watches, self.maintenance):
                service.set_token(answer.token)

    @property
    def token(self) -> str:
        """The token that calls carry now; hand it to `authenticate` when etcd refuses it."""
        return self._token

    async def call(self, what: str, attempt: Callable[[], Awaitable[Answer]]) -> Answer:
        """`attempt()` within the deadline, once more after a fresh token if etcd refused the old one."""
        if self.closed:
            raise SlicewiseError("unavailable", f"The connection to etcd at {self.address} is closed.")
        if not self._token:
            await self.authenticate()
        async with self._translated(what):
            token = self._token
            try:
                async with asyncio.timeout(self.timeout_s):
                    return await attempt()
            except (EtcdError, grpc.aio.AioRpcError) as error:
                if not is_stale_token(error) or not self._user:
                    raise
            await self.authenticate(stale=token)
            async with asyncio.timeout(self.timeout_s):
                return await attempt()

    @asynccontextmanager
    async def _translated(self, what: str) -> AsyncIterator[None]:
        try:
            yield
        except TimeoutError as error:
            raise SlicewiseError(
                "unavailable", f"etcd at {self.address} did not answer {what} within {self.timeout_s:g} s."
            ) from error
        except (EtcdUnauthenticatedError, EtcdPermissionDeniedError) as error:
            raise SlicewiseError("unauthorised", f"etcd at {self.address} refused {what}: {error}.") from error
        except EtcdError as error:
            raise SlicewiseError("unavailable", f"etcd at {self.address} is away ({what}: {error}).") from error
        except grpc.aio.AioRpcError as error:
            code = "unauthorised" if "authentication failed" in (error.details() or "") else "unavailable"
            raise SlicewiseError(code, f"etcd at {self.address} refused {what}: {error.details()}.") from error


def is_stale_token(error: Exception) -> bool:
    """Whether a fresh token cures this failure."""
    if isinstance(error, EtcdUnauthenticatedError):
        return True
    return isinstance(error, grpc.aio.AioRpcError) and any(text in (error.details() or "") for text in _STALE)
