"""One replica from birth to death: its broker, its function process, and why it is not ready.

The broker lives as long as the replica; the function process is started again whenever it ends, with
exponential back-off. Everything that happens is told through one callback, so that the function's
controller (`rollout`) can look at states and decide.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import random
import secrets
import signal
import socket
import time
from collections.abc import Callable
from typing import Any

from functions.service import ground
from functions.service.forks import Child
from functions.service.ground import Ground
from functions.service.outputs import FunctionLog, Output
from functions.service.wish import Wish
from proto.types.errors import SlicewiseError
from proto.wire import frames

log = logging.getLogger(__name__)

STEADY_S = 60.0  # ready for this long: earlier failures are forgotten
QUIET_S = 0.5  # no request for this long: whoever routes to us has heard that we stop
KILL_GRACE_S = 10.0  # between SIGTERM and SIGKILL, at most
BROKER_TIMEOUT_S = 20.0
WHY_LINES = 6


class Replica:
    """`status` is starting, ready, failed or stopping; `why` says what keeps it from being ready."""

    def __init__(self, wish: Wish, stage: Ground, function_log: FunctionLog, changed: Callable[[], None]) -> None:
        self.id = f"{wish.function.name}-{secrets.token_hex(4)}"
        self.wish = wish
        self.generation = wish.generation
        self.status = "starting"
        self.why = ""
        self.address = ""
        self.restarts = 0
        self.started_unix_ns = time.time_ns()
        self.cpu_millicores = 0.0
        self.memory_bytes = 0
        self.process: Child | None = None
        self._stage = stage
        self._changed = changed
        self._output = Output(function_log, self.id, stage.settings.log_bytes)
        self._place = ground.Place.make(stage, wish, self.id)
        self._broker: Child | None = None
        self._control: frames.FrameConnection | None = None
        self._in_flight = 0
        self._ready = asyncio.Event()
        self._drained = asyncio.Event()
        self._stopping = False
        self._life = asyncio.create_task(self._live(), name=f"replica {self.id}")

    @property
    def ended(self) -> bool:
        """Whether nothing of it is left."""
        return self._life.done()

    async def stop(self, grace_s: float) -> None:
        """Finish what is in flight (at most `grace_s`), then end both processes; returns when they are gone."""
        if self._stopping:
            await asyncio.wait([self._life])
            return
        self._stopping = True
        ready = self.status == "ready"
        self._set("stopping", "")
        if ready and self._control is not None and grace_s > 0:
            with contextlib.suppress(frames.FrameError, TimeoutError):
                await self._control.send({"drain": QUIET_S})
                async with asyncio.timeout(grace_s):
                    await self._drained.wait()
        self._life.cancel()
        await asyncio.wait([self._life])

    # ------------------------------------------------------------------ its life

    def _set(self, status: str, why: str) -> None:
        if self._stopping and status != "stopping":
            return
        self.status, self.why = status, why
        self._changed()

    async def _live(self) -> None:
        failures = 0
        try:
            while True:
                began = time.monotonic()
                try:
                    why = await self._once()
                except SlicewiseError as error:
                    why = error.message
                except OSError as error:
                    why = f"The replica could not be started: {error}."
                if time.monotonic() - began > STEADY_S and self._ready.is_set():
                    failures = 0
                self._ready.clear()
                failures += 1
                self.restarts += 1
                settings = self._stage.settings
                pause = min(settings.backoff_limit_s, settings.backoff_first_s * 2 ** (failures - 1))
                pause *= random.uniform(0.8, 1.2)
                log.info("replica %s: %s; again in %.1f s", self.id, why, pause)
                self._output.note(f"[slicewise: {why} Started again in {pause:.1f} s.]")
                self._set("failed", why)
                await asyncio.sleep(pause)
                self._set("starting", why)
        finally:
            await asyncio.shield(self._clear_away())

    async def _once(self) -> str:
        """Start what is missing and wait until the function or its broker ends; returns why."""
        if self._broker is None or self._broker.exit.done():
            await self._start_broker()
        assert self._broker is not None
        assert self._control is not None
        self.process = await self._start_function()
        self._stage.leftovers.remember(self.id, self.process.pid, self._place.uid)
        await self._control.send({"started": self.process.pid})
        ends: list[asyncio.Future[Any]] = [self.process.exit, self._broker.exit]
        timeout_s = self._stage.settings.replica_start_timeout_s
        becoming_ready = asyncio.ensure_future(self._ready.wait())
        try:
            await asyncio.wait([*ends, becoming_ready], timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
            if self._ready.is_set():
                await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        finally:
            becoming_ready.cancel()
        if self.process.exit.done():
            why = self._why(self.process.exit.result())
        elif self._broker.exit.done():
            why = f"The replica's broker ended ({_ending(self._broker.exit.result())})."
        else:
            why = f"It was not ready within {timeout_s:g} s. {self.why}".strip()
        ending = why
        await asyncio.sleep(0.05)  # its last words may still be in the pipe
        if self._output.stderr:
            why += " Last lines: " + " | ".join(list(self._output.stderr)[-WHY_LINES:])[-1500:]
        with contextlib.suppress(frames.FrameError):
            await self._control.send({"gone": ending if self.process.exit.done() else why})
        await self._end_function(0.0 if self.process.exit.done() else KILL_GRACE_S)
        return why

    def _why(self, code: int) -> str:
        bounds = self._place.bounds
        if not bounds.passed_memory() or code != -signal.SIGKILL:
            return _ending(code)
        return f"The function's process passed its memory limit ({bounds.memory_bytes:,} bytes) and was ended."

    async def _start_function(self) -> Child:
        self._output.stderr.clear()
        order, zygote = self._place.function_order(), self._stage.function_zygote(self.wish)
        out_read, out_write = os.pipe2(os.O_CLOEXEC)
        err_read, err_write = os.pipe2(os.O_CLOEXEC)
        try:
            child = await zygote.fork(order, [out_write, err_write])
        except BaseException:
            os.close(out_read)
            os.close(err_read)
            raise
        finally:
            os.close(out_write)
            os.close(err_write)
        self._output.attach(out_read, False)
        self._output.attach(err_read, True)
        return child

    async def _start_broker(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._broker = await self._stage.broker_zygote.fork(self._place.broker_order(), [theirs.fileno()])
        control = frames.FrameConnection(ours)
        self._control = control
        try:
            async with asyncio.timeout(BROKER_TIMEOUT_S):
                header, _ = await control.receive()
        except (TimeoutError, frames.FrameError) as error:
            raise SlicewiseError("unavailable", f"The replica's broker did not start ({error}).") from error
        self.address = f"{self._stage.settings.address}:{header['listening']}"
        listening = asyncio.create_task(self._hear(control), name=f"broker of {self.id}")
        self._broker.exit.add_done_callback(lambda _: listening.cancel())

    async def _hear(self, control: frames.FrameConnection) -> None:
        with contextlib.suppress(frames.FrameError):
            while True:
                header, fds = await control.receive()
                frames.close_fds(fds)
                self._heard(header)

    def _heard(self, header: dict[str, Any]) -> None:
        if "ready" in header:
            self._ready.set()
            self._stage.leftovers.learn(self.id)
            self._set("ready", "")
        elif "unready" in header:  # while ready: it serves, but something is wrong with it
            self._set(self.status, header["unready"])
        elif "drained" in header:
            self._drained.set()

    # ------------------------------------------------------------------ its end

    async def _end_function(self, grace_s: float) -> None:
        """SIGTERM to its process group, SIGKILL after `grace_s`, then whatever it has left behind."""
        process = self.process
        if process is None:
            return
        if not process.exit.done():
            self._stage.leftovers.learn(self.id)
            process.signal(signal.SIGTERM)
            await asyncio.wait([process.exit], timeout=grace_s)
        process.signal(signal.SIGKILL)
        await asyncio.to_thread(self._sweep)
        if not process.exit.done():
            await asyncio.wait([process.exit], timeout=KILL_GRACE_S)

    def _sweep(self) -> None:
        self._place.bounds.end()  # whatever session or namespace it has given itself
        self._stage.leftovers.sweep(self.id)  # where there are no cgroups

    async def _clear_away(self) -> None:
        grace = min(KILL_GRACE_S, self.wish.write_timeout_s)
        await self._end_function(grace)
        if self._broker is not None:
            self._broker.signal(signal.SIGTERM)
            await asyncio.wait([self._broker.exit], timeout=2.0)
            self._broker.signal(signal.SIGKILL)
        if self._control is not None:
            self._control.close()
        self._output.close()
        await asyncio.to_thread(self._place.remove)
        self._changed()


def _ending(code: int) -> str:
    if code >= 0:
        return f"The function's process ended with exit status {code}."
    with contextlib.suppress(ValueError):
        return f"The function's process was killed by {signal.Signals(-code).name}."
    return f"The function's process was killed by signal {-code}."
