"""`python -m scheduler.service`: leads until SIGTERM, or until another scheduler does."""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
import signal
import sys
from contextlib import suppress

import uvloop

from datastore.store import Store
from proto.types.errors import SlicewiseError
from proto.wire import journal, peers
from proto.wire.credentials import SigningKey, Trust
from proto.wire.generated import slicewise_pb2_grpc as pb_grpc
from proto.wire.settings import load
from scheduler.core.core import SchedulerCore
from scheduler.core.policies.registry import make_policy
from scheduler.service.book import Book
from scheduler.service.calling import Calls
from scheduler.service.catalogue import Catalogue
from scheduler.service.copies import Copies
from scheduler.service.desk import Desk
from scheduler.service.election import Election
from scheduler.service.metrics import Metrics
from scheduler.service.noding import Nodes
from scheduler.service.pen import Pen
from scheduler.service.recording import RecordedProfiles, Recorder
from scheduler.service.rpc import ALLOWED, Scheduler
from scheduler.service.settings import SchedulerSettings

_log = logging.getLogger(__name__)

NAME = "scheduler"
_STOP_GRACE_S = 0.3  # streams never end by themselves
_LAST_WRITE_S = 1.5


async def serve(settings: SchedulerSettings) -> None:
    """Lead until SIGTERM or SIGINT; raises SlicewiseError when it cannot start or must stop leading."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    stopping = asyncio.create_task(_wait(stop))
    store = Store(settings.etcd, settings.etcd_user, settings.etcd_password()) if settings.etcd else None
    server = peers.server(Trust.load(settings.trust), ALLOWED)
    address = f"{settings.listen.rpartition(':')[0]}:{peers.bind(server, settings.listen)}"
    election = Election(store, address, settings.state_dir / "epoch")
    winning = asyncio.create_task(election.win())
    tasks: list[asyncio.Task[None]] = []
    pen = Pen(store)
    desk: Desk | None = None
    try:
        await asyncio.wait([stopping, winning], return_when=asyncio.FIRST_COMPLETED)
        if stop.is_set():
            return
        desk = _desk(settings, winning.result())
        book, calls, metrics_port = await _open(settings, desk, pen, store, tasks)
        nodes = Nodes(desk, pen, calls.refresh_hint)
        pb_grpc.add_SchedulerServicer_to_server(Scheduler(desk, calls, nodes, book), server)
        leading = asyncio.create_task(election.keep())
        loops = (desk.keep_house(), book.keep_tidy(), Copies(desk, settings.package_copies).keep())
        tasks += [*map(asyncio.create_task, loops), leading]
        await server.start()
        ready = {"ready": True, "service": NAME, "listen": address, "epoch": desk.epoch, "metrics_port": metrics_port}
        print(json.dumps(ready), flush=True)
        done, _ = await asyncio.wait([stopping, *tasks], return_when=asyncio.FIRST_COMPLETED)
        book.note_profiles()
        for task in done - {stopping}:
            task.result()  # a loop that never ends has ended: say why
        if leading in done:
            raise SlicewiseError("conflict", "Another scheduler leads now.")
    finally:
        stopping.cancel()
        winning.cancel()
        for task in tasks:
            task.cancel()
        await server.stop(_STOP_GRACE_S)
        with suppress(TimeoutError):
            async with asyncio.timeout(_LAST_WRITE_S):
                await pen.flush()
                await election.resign()
        if store:
            await store.close()
        if desk is not None and desk.recorder is not None:
            desk.recorder.close()


def _desk(settings: SchedulerSettings, epoch: int) -> Desk:
    profiles = RecordedProfiles()
    numbers = itertools.count(1)
    core = SchedulerCore(
        make_policy({"name": settings.policy}),
        profiles,
        settings.tuning(),
        make_id=lambda: f"{epoch}-{next(numbers)}",
        learn=profiles,
    )
    key = SigningKey.load("bindings", settings.bindings_key)
    path = settings.recording()
    if path is not None:
        limit = int(settings.record_events_mb * 1e6)
        profiles.recorder = Recorder(path, limit, epoch, core.policy, core.tuning)
    return Desk(core, profiles, Catalogue(), key, epoch, int(settings.binding_ttl_s * 1e9), profiles.recorder)


async def _open(
    settings: SchedulerSettings, desk: Desk, pen: Pen, store: Store | None, tasks: list[asyncio.Task[None]]
) -> tuple[Book, Calls, int]:
    """Read the state, and start what follows and writes it; the port of /metrics, 0 if there is none."""
    calls = Calls(desk, int(settings.max_wait_s * 1e9))
    snapshot = settings.state_dir / "functions.json"
    book = Book(desk, pen, store, snapshot, calls.function_known, calls.forget_hint)
    opened = await book.open()
    calls.refresh_all_hints()
    tasks += [asyncio.create_task(book.watch(opened)), asyncio.create_task(pen.run())]
    if settings.metrics_listen in ("", "0"):
        return book, calls, 0
    return book, calls, Metrics(desk, pen).serve(settings.metrics_listen)


async def _wait(event: asyncio.Event) -> None:
    await event.wait()


def main() -> int:
    """Exit status: 0 after SIGTERM, 2 for bad settings, 1 when it could not serve or was deposed."""
    settings = load(SchedulerSettings, NAME)
    journal.configure(NAME, settings.log_level)
    try:
        make_policy({"name": settings.policy})
    except SlicewiseError as error:
        print(f"{NAME}: policy: {error.message}", file=sys.stderr)
        return 2
    try:
        uvloop.run(serve(settings))
    except (SlicewiseError, OSError, ValueError) as error:
        _log.error("the scheduler stops: %s", error)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
