"""The gateway put together from its parts, started in order and stopped in reverse."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import sys
from collections.abc import AsyncIterator
from importlib.metadata import PackageNotFoundError, version

from a2wsgi import WSGIMiddleware

from datastore.store import Store
from gateway.service import servers
from gateway.service.auth import BasicAuth
from gateway.service.bridge import Bridge
from gateway.service.deploying import Deployer
from gateway.service.door import Door
from gateway.service.gpu_path import GpuPath
from gateway.service.invoking import Invoker
from gateway.service.logs import Logs
from gateway.service.management.app import make_app
from gateway.service.management.parts import Parts
from gateway.service.metrics import Metrics
from gateway.service.metrics_door import MetricsDoor
from gateway.service.pages import Pages
from gateway.service.placing import Placer
from gateway.service.providers.process import ProcessProvider
from gateway.service.recording import ArrivalFile, Recorder
from gateway.service.registry import Registry
from gateway.service.scheduling import SchedulerQueries
from gateway.service.securing import Securer
from gateway.service.sending import IDLE_S, Sender
from gateway.service.settings import Settings
from gateway.service.spool import Spool
from gateway.service.uids import Uids
from gateway.service.vault import Vault
from proto.types.errors import SlicewiseError
from proto.wire.credentials import SigningKey
from proto.wire.http.pool import Pool

_log = logging.getLogger(__name__)

# How long a start waits for etcd; the launcher starts it before us, and starts us again.
_ETCD_PATIENCE_S = 30.0
_ETCD_PAUSE_S = 0.3


async def serve(settings: Settings, stop: asyncio.Event) -> None:
    """Run until `stop`; raises SlicewiseError when something needed is missing."""
    listener, metrics_listener = servers.bind(settings.listen_http), servers.bind(settings.metrics_listen)
    auth = BasicAuth.load(settings.basic_auth, settings.secret_mount_path)
    async with _parts(settings) as (door_parts, invoker, logs):
        app = make_app(door_parts, settings.max_management_body_bytes)
        management = WSGIMiddleware(app, workers=settings.management_threads)  # type: ignore[arg-type]
        door = Door(invoker, logs, management, auth)  # type: ignore[arg-type]
        main = servers.make_server(door, settings.max_header_bytes, settings.keep_alive_timeout)
        second = servers.make_server(
            MetricsDoor(Pages(door_parts.metrics.registry, settings.metrics_page_urls)),
            settings.max_header_bytes,
            settings.keep_alive_timeout,
        )
        ready = {
            "ready": True,
            "service": "gateway",
            "http": servers.address_of(listener),
            "metrics": servers.address_of(metrics_listener),
        }
        serving = [
            asyncio.create_task(main.serve(sockets=[listener]), name="http"),
            asyncio.create_task(second.serve(sockets=[metrics_listener]), name="metrics"),
        ]
        stopping = asyncio.create_task(stop.wait(), name="stop")
        print(json.dumps(ready), flush=True)
        try:
            await asyncio.wait([*serving, stopping], return_when=asyncio.FIRST_COMPLETED)
        finally:
            main.should_exit = second.should_exit = True
            stopping.cancel()
            await asyncio.gather(*serving)
            management.executor.shutdown(wait=False, cancel_futures=True)


@contextlib.asynccontextmanager
async def _parts(settings: Settings) -> AsyncIterator[tuple[Parts, Invoker, Logs]]:
    credential = settings.credential_token()
    namespaces = settings.known_namespaces
    async with contextlib.AsyncExitStack() as stack:
        store = Store(settings.etcd, settings.etcd_user, settings.etcd_password())
        stack.push_async_callback(store.close)
        registry = Registry(store, namespaces)
        vault = Vault(store, settings.secrets_key)
        uids = Uids(store, settings.uid_first, settings.uid_count)
        for part in (vault, uids, registry):
            await _load(part)
        provider = ProcessProvider(settings.hosts, credential, settings.write_timeout)
        stack.push_async_callback(provider.close)
        replicas_key = SigningKey.load("replicas", settings.replicas_key)
        queries = SchedulerQueries(settings.scheduler, credential)
        stack.push_async_callback(queries.close)
        deployer = Deployer(registry, vault, uids, provider, replicas_key, namespaces, settings.drain_timeout, queries)
        stack.push_async_callback(deployer.close)
        await provider.start(deployer.wishes(), registry.update)
        placer = Placer(settings.scheduler, credential)
        stack.push_async_callback(placer.close)
        await placer.start()
        pool = Pool(IDLE_S)
        stack.callback(pool.close)
        spool = Spool(
            settings.spool_folder, settings.spool_memory_bytes, settings.spool_dir_bytes, settings.max_body_bytes
        )
        metrics = Metrics(registry.all)
        metrics.spooled_bytes.set_function(lambda: spool.in_files)
        securer = Securer(registry, deployer, settings.max_waiting)
        sender = Sender(securer, pool, settings.wake_timeout, settings.upstream_timeout, settings.unreachable_timeout)
        recorder: Recorder | None = None
        if settings.arrivals_file is not None:
            file = ArrivalFile(settings.arrivals_file, settings.record_bytes, settings.record_files)
            recorder = Recorder(file, metrics.arrivals)
            stack.push_async_callback(recorder.close)
            await recorder.start()
        gpu_path = GpuPath(sender, spool, placer, metrics, recorder)
        invoker = Invoker(
            registry, namespaces, sender, gpu_path, metrics, settings.read_timeout, settings.max_in_flight
        )
        logs = Logs(registry, provider, namespaces, settings.write_timeout)
        bridge = Bridge(asyncio.get_running_loop())
        yield (
            Parts(bridge, registry, deployer, vault, provider, queries, metrics, namespaces, _release()),
            invoker,
            logs,
        )


async def _load(part: Registry | Vault | Uids) -> None:
    """Read a part of the state, with patience for an etcd that comes up beside us."""
    deadline = asyncio.get_running_loop().time() + _ETCD_PATIENCE_S
    while True:
        try:
            await part.load()
            return
        except SlicewiseError as error:
            if error.code != "unavailable" or asyncio.get_running_loop().time() > deadline:
                raise
            _log.warning("waiting for etcd: %s", error)
            await asyncio.sleep(_ETCD_PAUSE_S)


def _release() -> str:
    try:
        return version("slicewise")
    except PackageNotFoundError:
        print("slicewise is not installed as a package; its version is unknown", file=sys.stderr)
        return "0"
