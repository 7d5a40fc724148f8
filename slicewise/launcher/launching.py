"""Brings one platform up, keeps it up, takes it down. `slicewise up` is a thin door to this."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from proto.types.errors import SlicewiseError
from slicewise.launcher import board as boards
from slicewise.launcher import issuing, logs, ports, services
from slicewise.launcher.board import Board
from slicewise.launcher.child import READY_TIMEOUT_S, Child
from slicewise.launcher.layout import Layout
from slicewise.launcher.lock import Lock
from slicewise.launcher.orphans import Orphans
from slicewise.launcher.settings import UpSettings

_log = logging.getLogger(__name__)

CLEAN_EVERY_S = 5.0
TIDY_EVERY_S = 600.0


class Launcher:
    """One platform. `prepare` (may refuse), then `run` inside an event loop."""

    def __init__(self, layout: Layout, settings: UpSettings) -> None:
        self._layout = layout
        self._settings = settings
        self._lock = Lock(layout.lock)
        self._children: list[Child] = []
        self._stop = asyncio.Event()
        self._orphans = Orphans()
        self._ports = ports.Ports()
        self.board = Board(layout.board)

    def prepare(self) -> None:
        """Take the lock and the ports, write keys and files; raises SlicewiseError and leaves nothing running."""
        self._layout.make()
        self._lock.take()
        try:
            kept = boards.read(self._layout.board).get("addresses", {})
            own = {
                name: self._ports.claim(name, self._settings.host, port, kept.get(name, 0), flag)
                for name, port, flag in (
                    ("gateway", self._settings.port, "--port"),
                    ("metrics", self._settings.metrics_port, "--metrics-port"),
                )
            }
            others = self._ports.choose(services.port_names(self._settings), kept)
            addresses = {**own, **others}
            issuing.issue(self._layout, ("gateway", "scheduler", "cache_manager", "gpu_manager", "host", "cli"))
            self._services = services.plan(self._layout, self._settings, addresses)
        except BaseException:
            self._ports.release()
            self._lock.release()
            raise
        self.board.addresses = addresses
        self.board.url = f"http://{self._settings.host}:{addresses['gateway']}"
        self.board.publish()
        self._etcd_address = f"127.0.0.1:{addresses['etcd']}"

    async def run(self, finish: Callable[[], None], announce: Callable[[], None]) -> None:
        """Serve until SIGTERM or SIGINT.

        When all is up, `finish` is called in a thread, and `announce` once the board says ready.

        Raises SlicewiseError when the platform does not come up. Every child has ended on return.
        """
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop.set)
        self._orphans.adopt()
        self._children = [self._child(service) for service in self._services]
        self.board.entries = {child.entry.name: child.entry for child in self._children}
        self.board.publish()
        tasks = [asyncio.create_task(self._start(child)) for child in self._children]
        upkeep = [asyncio.create_task(self._clean()), asyncio.create_task(self._tidy())]
        try:
            await self._come_up()
            if not self._stop.is_set():
                await asyncio.to_thread(finish)
                self.board.phase = "ready"
                self.board.publish()
                announce()
            await self._stop.wait()
        except SlicewiseError as error:
            self.board.failure = error.message
            raise
        finally:
            self.board.phase = "stopping"
            self.board.publish()
            for task in upkeep:
                task.cancel()
            await self._take_down(tasks)
            await self._orphans.end_all()
            self.board.phase = "failed" if self.board.failure else "stopped"
            self.board.publish()
            self._ports.release()
            self._lock.release()

    def _child(self, service: services.Service) -> Child:
        probe = None
        if service.name == services.ETCD:
            probe = partial(self._administer, "secure", "--password-file", self._layout.keys / "etcd-password")
        return Child(service, self._layout.log(service.name), self.board.publish, self._orphans, probe)

    async def _start(self, child: Child) -> None:
        for other in self._children:
            if other.entry.name in child.service.after:
                await other.ready.wait()
        await child.run()

    async def _come_up(self) -> None:
        """Return when every child is ready or a stop was asked for; raises SlicewiseError otherwise."""
        ready = asyncio.gather(*(child.ready.wait() for child in self._children))
        stopped = asyncio.create_task(self._stop.wait())
        failures = [child.failed for child in self._children]
        try:
            async with asyncio.timeout(self._settings.ready_timeout_s):
                waited: list[asyncio.Future[Any]] = [ready, stopped, *failures]
                await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
        except TimeoutError:
            missing = ", ".join(child.entry.name for child in self._children if not child.ready.is_set())
            raise SlicewiseError(
                "unavailable",
                f"Not ready within {self._settings.ready_timeout_s:g} s: {missing}; see {self._layout.logs}.",
            ) from None
        finally:
            ready.cancel()
            stopped.cancel()
            await asyncio.gather(ready, stopped, return_exceptions=True)
        for failure in failures:
            if failure.done():
                raise SlicewiseError("unavailable", f"{failure.result()}; see {self._layout.logs}.")

    async def _take_down(self, tasks: list[asyncio.Task[None]]) -> None:
        for rank in sorted({child.service.stop_rank for child in self._children}):
            leaving = [child for child in self._children if child.service.stop_rank == rank]
            await asyncio.gather(*(child.stop() for child in leaving))
        for child, task in zip(self._children, tasks, strict=True):
            if child.entry.state == boards.WAITING:
                task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _clean(self) -> None:
        while True:
            await asyncio.sleep(CLEAN_EVERY_S)
            for child in self._children:
                await asyncio.to_thread(logs.rotate, self._layout.log(child.entry.name))
            await self._orphans.sweep()

    async def _tidy(self) -> None:
        while True:
            await asyncio.sleep(TIDY_EVERY_S)
            try:
                await self._administer("tidy")
            except SlicewiseError as error:
                _log.warning("etcd was not tidied: %s", error)

    async def _administer(self, *arguments: str | Path) -> None:
        """Do root's work on etcd in a process of its own; raises SlicewiseError `unavailable` with its words."""
        command = [sys.executable, "-m", "datastore.administration", *arguments]
        command += ["--address", self._etcd_address, "--root-password-file", self._layout.keys / "etcd-root-password"]
        async with self._orphans.forking:
            process = await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.PIPE)
            self._orphans.serving(process.pid)
        try:
            async with asyncio.timeout(READY_TIMEOUT_S):
                _, words = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
            self._orphans.ended(process.pid)
        if process.returncode:
            raise SlicewiseError("unavailable", words.decode(errors="replace").strip() or "etcd cannot be set up.")
