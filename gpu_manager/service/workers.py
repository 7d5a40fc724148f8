"""The processes of one slice: started, loaded, asked, killed; each outcome goes back to the core as an event."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from typing import TYPE_CHECKING, Any

from gpu_manager.core import events as ev
from gpu_manager.core import instructions as ins
from gpu_manager.service.calls import PendingCall
from gpu_manager.service.devices.seam import Declared
from gpu_manager.service.process import WorkerEnded, WorkerProcess, error_of
from proto.types.errors import SlicewiseError
from proto.types.models import Model
from proto.wire import frames

if TYPE_CHECKING:
    from gpu_manager.service.node import Node
    from gpu_manager.service.slices import LiveSlice

_log = logging.getLogger(__name__)

RESET_TIMEOUT_S = 10.0
HELD_TIMEOUT_S = 10.0
MEASURE_EVERY_S = 1.0
_OVERRUNS = ("overrun", "over_limit")


class Workers:
    """Living and dying processes by (worker key, incarnation)."""

    def __init__(self, node: Node, live: LiveSlice) -> None:
        self._node = node
        self._live = live
        self._living: dict[tuple[str, int], WorkerProcess] = {}
        self._doomed: dict[tuple[str, int], str] = {}  # killed before they were born
        self._measured: dict[tuple[str, int], float] = {}
        self._limits: dict[tuple[str, int], int] = {}

    def pids(self) -> dict[str, int]:
        """Worker key -> pid."""
        return {key: process.pid for (key, _), process in self._living.items()}

    def kill(self, order: ins.Kill) -> None:
        """End a worker; WorkerGone follows, at once if it was never born."""
        name = (order.worker, order.incarnation)
        process = self._living.get(name)
        _log.info("worker %s of slice %s is killed: %s", order.worker, self._live.device.spec.id, order.reason)
        if process is not None:
            process.kill(order.reason)
        else:
            self._doomed[name] = order.reason

    def run(self, order: ins.Run, call: PendingCall | None, at_least_s: float) -> None:
        """Pass a call to its worker."""
        process = self._living.get((order.worker, order.incarnation))
        if process is None or call is None:
            return  # its end, or its caller's, is already on its way to the core
        header = {
            "op": "infer", "model": call.model, "method": call.method, "layout": call.layout, "at_least_s": at_least_s,
        }  # fmt: skip
        number = order.call
        wanted = self._limits.get((order.worker, order.incarnation), 0)
        if wanted != process.limit_bytes:
            process.limit_bytes = header["limit_bytes"] = wanted

        def ran(header: dict[str, Any], fds: list[int]) -> None:
            if len(fds) != bool(header.get("ok")):
                frames.close_fds(fds)
                raise ValueError("an answer brings its payload, a failure nothing")
            peak = process.cgroup.peak_bytes() if process.cgroup else int(header.get("peak_bytes") or 0)
            self._live.ran(number, header, fds, peak)

        process.request(header, [call.fd] if call.stream < 0 else [call.fd, call.stream], ran)

    def limit(self, order: ins.Limit) -> None:
        """From now on a worker may hold so much: the kernel is told at once, the worker with its next call."""
        name = (order.worker, order.incarnation)
        process = self._living.get(name)
        if process is not None:
            self._limits[name] = order.limit_bytes
            if process.cgroup is not None:
                process.cgroup.limit(order.limit_bytes)

    async def load(self, order: ins.Load) -> None:
        """Bring one model into a worker, starting the process first if need be."""
        name = (order.worker, order.incarnation)
        try:
            function = order.worker.rpartition("@")[0]
            stored = self._node.store.get(function, order.digest)
            if stored is None:
                raise SlicewiseError("not_found", f"Model {order.digest} of {function} is not on this node.")
            package = self._node.store.open(function, order.digest)
            try:
                if order.fresh:
                    await self._birth(order, stored.model, package)
                held = await self._load(order, stored.model, package)
            finally:
                os.close(package)
            self._live.post(ev.ModelLoaded(order.worker, order.incarnation, order.digest, held))
        except _Overrun as overrun:
            self._live.post(
                ev.LoadFailed(order.worker, order.incarnation, order.digest, overrun.failure, overrun.needed)
            )
        except WorkerEnded:
            pass  # `_gone` tells the core
        except SlicewiseError as error:
            if error.code == "bad_digest":
                self._node.store.damaged(order.worker.rpartition("@")[0], order.digest)
            self._failed(order, error)
        except TimeoutError:
            text = f"Model {order.digest} did not load within {self._node.settings.load_timeout_s:.0f} s."
            self._failed(order, SlicewiseError("deadline_in_load", text))
        except Exception as error:
            _log.exception("loading %s failed", order.digest)
            text = f"Model {order.digest} could not be loaded: {type(error).__name__}: {error}"
            self._failed(order, SlicewiseError("internal", text))
        if name not in self._living and (order.fresh or name in self._doomed):
            # It was never born, or its end came first: either way its memory is free.
            self._live.post(ev.WorkerGone(*name, self._doomed.pop(name, "it could not be started")))

    def _failed(self, order: ins.Load, error: SlicewiseError) -> None:
        _log.warning("loading %s on %s: %s", order.worker, self._live.device.spec.id, error)
        self._live.post(ev.LoadFailed(order.worker, order.incarnation, order.digest, error))

    async def _birth(self, order: ins.Load, model: Model, package: int) -> None:
        name = (order.worker, order.incarnation)
        device = self._live.device
        preparation = self._live.bindings.get(order.binding)
        uid = preparation.binding.uid if preparation else 0
        fork = {
            "key": order.worker, "slice": device.spec.id, "uid": uid, "gid": uid, "threads": device.threads,
            "cuda": device.cuda, "sys_path": self._node.sys_path(model.environment),
        }  # fmt: skip
        zygote = self._node.zygotes.matching(model.python, model.torch)
        pid, pidfd, sock = await zygote.fork(fork, package)
        process = WorkerProcess(zygote, pid, pidfd, sock, lambda why: self._gone(name, why))
        self._living[name] = process
        if not device.cuda and not self._declared(order.worker):
            process.cgroup = self._node.cgroups.make(f"{device.spec.id}-{order.incarnation}")
            if process.cgroup is not None:
                with contextlib.suppress(OSError):  # it has ended, which its pidfd says
                    process.cgroup.join(pid)
        if name in self._doomed:
            self._living[name].kill(self._doomed.pop(name))

    def _gone(self, name: tuple[str, int], why: str) -> None:
        process = self._living.pop(name, None)
        self._measured.pop(name, None)
        self._limits.pop(name, None)
        over = False
        if process is not None and process.cgroup is not None:
            over = not process.killed and process.cgroup.ended_it()
            self._live.spawn(process.cgroup.remove())
        if over:
            why = "it passed the memory that it may hold"
        _log.info("worker %s of slice %s is gone: %s", name[0], self._live.device.spec.id, why)
        self._live.post(ev.WorkerGone(*name, why, over))

    def _declared(self, worker: str) -> Declared | None:
        return self._node.devices.declared(worker.rpartition("@")[0].rpartition(".")[0])

    async def _load(self, order: ins.Load, model: Model, fd: int) -> int:
        device = self._live.device
        declared = self._declared(order.worker)
        header: dict[str, Any] = {
            "op": "load", "digest": order.digest, "kind": model.kind, "device": "cuda" if device.cuda else "cpu",
            "at_least_s": declared.load_s if declared and order.fresh else 0.0,
            "limit_bytes": 0 if declared else order.limit_bytes,
        }  # fmt: skip
        if device.cuda and order.fresh:
            header["free_before_bytes"] = self._node.devices.free_bytes(device)
        process = self._living.get((order.worker, order.incarnation))
        if process is None:
            raise SlicewiseError("worker_died", f"The worker of {order.worker} died before its load.")
        if process.cgroup is not None:
            process.cgroup.loading(os.fstat(fd).st_size if model.kind == "module" else 0)
            process.cgroup.limit(order.limit_bytes)
        timeout_s = self._node.settings.load_timeout_s + (declared.load_s if declared else 0.0)
        answer = await process.ask(header, [fd], timeout_s)
        if not answer.get("ok"):
            failure = error_of(answer)
            if failure.code in _OVERRUNS:
                needed = int(answer.get("needed_bytes") or answer.get("held_bytes") or 0)
                raise _Overrun(failure, max(needed, order.limit_bytes + 1))
            raise failure
        held = declared.held_bytes if declared else await self._held(process, answer)
        process.limit_bytes = order.limit_bytes
        if process.cgroup is not None:
            process.cgroup.settle(held)
        return held

    async def _held(self, process: WorkerProcess, answer: dict[str, Any]) -> int:
        """What a worker holds: the hardware's word on a GPU, if it says so, else the worker's own."""
        device = self._live.device
        counted = 0
        if device.cuda:  # NVML takes its time
            counted = await asyncio.to_thread(self._node.devices.process_bytes, device, process.pid)
        said = max(0, int(answer["held_bytes"]))
        if process.cgroup is not None:
            with contextlib.suppress(OSError):  # it has just gone
                said = process.cgroup.at_least(said)
        return counted or said

    async def reset(self, order: ins.Reset) -> None:
        """Have a worker's state restored."""
        process = self._living.get((order.worker, order.incarnation))
        ok = False
        if process is not None:
            try:
                answer = await process.ask({"op": "reset"}, [], RESET_TIMEOUT_S)
                ok = bool(answer.get("ok"))
            except (TimeoutError, WorkerEnded):
                _log.warning("worker %s could not be reset", order.worker)
        self._live.post(ev.ResetDone(order.worker, order.incarnation, ok))

    async def measure(self, worker: str) -> None:
        """Ask a worker what it holds, at most once a second; emulated ones are not asked."""
        loop = asyncio.get_running_loop()
        name = next((name for name in self._living if name[0] == worker), None)
        if name is None or self._declared(worker):
            return
        if loop.time() - self._measured.get(name, 0.0) < MEASURE_EVERY_S:
            return
        self._measured[name] = loop.time()
        try:
            process = self._living[name]
            answer = await process.ask({"op": "held"}, [], HELD_TIMEOUT_S)
        except (TimeoutError, WorkerEnded):
            return
        if answer.get("ok"):
            self._live.post(ev.Measured(*name, await self._held(process, answer)))

    async def close(self) -> None:
        """End all of them."""
        await asyncio.gather(*(process.close() for process in list(self._living.values())))


class _Overrun(Exception):
    def __init__(self, failure: SlicewiseError, needed: int) -> None:
        super().__init__(str(failure))
        self.failure = failure
        self.needed = needed
