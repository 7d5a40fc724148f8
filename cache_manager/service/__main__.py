"""`python -m cache_manager.service`: serves until SIGTERM."""

from __future__ import annotations

import asyncio
import json
import logging
import signal
import sys

from cache_manager.core.lists import Lists
from cache_manager.core.publishing import Publishing
from cache_manager.service.metrics import Metrics
from cache_manager.service.publisher import publish, sweep
from cache_manager.service.rpc import CacheManager
from cache_manager.service.settings import CacheManagerSettings
from datastore.store import Store
from proto.types.errors import SlicewiseError
from proto.wire import journal, peers
from proto.wire.credentials import Trust
from proto.wire.generated import slicewise_pb2_grpc as pb_grpc
from proto.wire.settings import load

_log = logging.getLogger(__name__)

NAME = "cache_manager"
_STOP_GRACE_S = 1.0
_EXPIRE_EVERY_S = 1.0
_ALLOWED = {"Report": ("service:gpu_manager",), "Admit": ("service:gpu_manager",)}


async def serve(settings: CacheManagerSettings) -> None:
    """Serve until SIGTERM or SIGINT; raises SlicewiseError when it cannot start."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    lists, publishing = Lists(), Publishing()
    metrics = Metrics(lists)
    service = CacheManager(lists, publishing, metrics)
    server = peers.server(Trust.load(settings.trust), _ALLOWED)
    pb_grpc.add_CacheManagerServicer_to_server(service, server)
    host = settings.listen.rpartition(":")[0]
    port = peers.bind(server, settings.listen)
    metrics_port = metrics.serve(settings.metrics_listen) if settings.metrics_listen else 0
    store = Store(settings.etcd, settings.etcd_user, settings.etcd_password()) if settings.etcd else None
    tasks = [asyncio.create_task(_expire(service))]
    if store:
        tasks += [
            asyncio.create_task(publish(store, publishing, service.changed)),
            asyncio.create_task(sweep(store, lists)),
        ]
    await server.start()
    ready = {"ready": True, "service": NAME, "listen": f"{host}:{port}", "metrics_port": metrics_port}
    print(json.dumps(ready), flush=True)
    stopping = asyncio.create_task(_wait(stop))
    done, _ = await asyncio.wait([stopping, *tasks], return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        task.cancel()
    await server.stop(_STOP_GRACE_S)
    if store:
        await store.close()
    for task in done - {stopping}:
        task.result()  # a loop that never ends has ended: say why


async def _wait(event: asyncio.Event) -> None:
    await event.wait()


async def _expire(service: CacheManager) -> None:
    while True:
        await asyncio.sleep(_EXPIRE_EVERY_S)
        service.expire()


def main() -> int:
    """Exit status: 0 after SIGTERM, 2 for bad settings, 1 when it could not serve."""
    settings = load(CacheManagerSettings, NAME)
    journal.configure(NAME, settings.log_level)
    try:
        asyncio.run(serve(settings))
    except (SlicewiseError, OSError, ValueError) as error:
        _log.error("the cache manager cannot serve: %s", error)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
