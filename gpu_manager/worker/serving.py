"""A worker's life: frames in, models run, frames out, one at a time until the GPU manager hangs up."""

from __future__ import annotations

import os
import socket
import sys
import time
import traceback
from typing import Any

import torch

from . import loading, running
from .memory import Ledger, Overrun
from .outlets import Line
from .sharing import devices, errors, frames

MAX_TRACEBACK = 32 * 1024


class Worker:
    """The models that one function holds on one slice."""

    def __init__(self, order: dict[str, Any]) -> None:
        self._ledger = Ledger(cuda=bool(order.get("cuda")))
        self._models: dict[str, running.Running] = {}
        self._device = torch.device("cuda" if order.get("cuda") else "cpu")
        if not order.get("cuda"):
            devices.patch(torch)  # models say "cuda" in their own code

    def answer(self, header: dict[str, Any], fds: list[int]) -> tuple[dict[str, Any], list[int]]:
        """The answer to one frame and the descriptors that go with it, which the caller closes."""
        operation = header.get("op")
        started = time.perf_counter()
        try:
            if operation == "infer":
                return self._infer(header, fds, started)
            if operation == "load":
                return self._load(header, fds, started), []
            if operation == "reset":
                for model in self._models.values():
                    model.reset()
                return {"ok": True}, []
            if operation == "held":
                return {"ok": True, "held_bytes": self._ledger.held()}, []
            return _failure("internal", f"A worker knows no {operation!r}."), []
        except running.ModelFailed as failed:
            return self._model_failed(failed), []
        except BaseException as error:
            mapped = (
                operation == "load" and len(fds) == 1 and header.get("kind") == "module" and self._device.type == "cpu"
            )
            return self._failed(error, operation, os.fstat(fds[0]).st_size if mapped else 0), []

    def _load(self, header: dict[str, Any], fds: list[int], started: float) -> dict[str, Any]:
        if len(fds) != 1:
            return _failure("bad_request", "load needs the package's descriptor.")
        digest = header["digest"]
        if digest not in self._models:
            self._ledger.open_gpu(int(header.get("free_before_bytes") or 0))
            self._ledger.limit(int(header.get("limit_bytes") or 0))
            try:
                model = running.Running(loading.load(fds[0], digest, header["kind"], self._device), self._device)
                held = self._ledger.check(model.mapped_bytes)
            finally:
                self._ledger.serve()
            self._models[digest] = model
        else:
            held = self._ledger.held()
        _sleep_out(header, started)
        return {"ok": True, "load_s": time.perf_counter() - started, "held_bytes": held}

    def _infer(self, header: dict[str, Any], fds: list[int], started: float) -> tuple[dict[str, Any], list[int]]:
        model = self._models.get(header["model"])
        if model is None:
            return _failure("not_ready", f"Model {header['model']} is not loaded in this worker."), []
        if len(fds) not in (1, 2):
            return _failure("bad_request", "infer needs the payload's descriptor."), []
        limited = int(header.get("limit_bytes") or 0)
        if limited:
            self._ledger.allow(limited)
        line = Line(os.dup(fds[1]) if len(fds) == 2 else -1)
        try:
            result = model.infer(header.get("method") or "forward", header["layout"], fds[0], line)
        finally:
            line.close()
        _sleep_out(header, started)
        answer = {
            "ok": True,
            "infer_s": time.perf_counter() - started,
            "bytes": result.size,
            "layout": result.layout,
            "state": result.state,
        }
        if limited and self._device.type != "cpu":
            answer["peak_bytes"] = self._ledger.held()  # the allocator keeps what a call took
        return answer, [result.fd]

    def _model_failed(self, failed: running.ModelFailed) -> dict[str, Any]:
        overrun = self._ledger.overrun(failed.cause)
        if overrun is not None:
            return {**_overrun(overrun), "state": failed.state}
        if isinstance(failed.cause, errors.SlicewiseError):
            return {**_failure(failed.cause.code, failed.cause.message), "state": failed.state}
        kind = type(failed.cause)
        name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
        text = str(failed.cause)[:MAX_TRACEBACK]
        answer = _failure("model_failed", f"The model raised {name}: {text[:500]}")
        answer["exception"] = {"type": name, "text": text, "traceback": failed.trace[-MAX_TRACEBACK:]}
        if all(isinstance(item, (str, int, type(None))) for item in failed.cause.args) and len(text) < 4096:
            answer["exception"]["args"] = list(failed.cause.args)
        answer["state"] = failed.state
        return answer

    def _failed(self, error: BaseException, operation: Any, mapped_bytes: int) -> dict[str, Any]:
        overrun = error if isinstance(error, Overrun) else self._ledger.overrun(error, mapped_bytes)
        if overrun is not None:
            return _overrun(overrun)
        if isinstance(error, loading.BadPackage):
            return _failure("bad_digest", str(error))
        if isinstance(error, errors.SlicewiseError):
            return _failure(error.code, error.message)
        traceback.print_exc()
        what = f"{type(error).__name__}: {error}"
        if operation == "load":
            answer = _failure("model_failed", f"The model could not be loaded on its slice: {what}")
            answer["exception"] = {
                "type": type(error).__name__,
                "text": str(error)[:MAX_TRACEBACK],
                "traceback": traceback.format_exc()[-MAX_TRACEBACK:],
            }
            return answer
        return _failure("internal", f"The worker failed: {what}")


def warm(cpu: bool) -> None:
    """Do ahead what any worker does, on a node without GPUs if `cpu`."""
    if cpu:
        devices.patch(torch)
    Ledger(cuda=False).held()  # what is written to here is copied from the zygote only once


def _failure(code: str, message: str) -> dict[str, Any]:
    return {"ok": False, "error": {"code": code, "message": message}}


def _overrun(overrun: Overrun) -> dict[str, Any]:
    answer = _failure("overrun", str(overrun))
    answer["needed_bytes"] = overrun.needed_bytes
    return answer


def _sleep_out(header: dict[str, Any], started: float) -> None:
    """Emulated slices: a call or a load takes at least its profile's time."""
    rest = float(header.get("at_least_s") or 0.0) - (time.perf_counter() - started)
    if rest > 0:
        time.sleep(rest)


def serve(sock: socket.socket, order: dict[str, Any]) -> int:
    """Answer frames on `sock` until its other end closes; returns the exit status."""
    torch.set_num_threads(max(1, int(order.get("threads") or 1)))
    worker = Worker(order)
    while True:
        try:
            header, fds = frames.receive(sock)
        except (frames.FrameError, OSError):
            return 0
        answer, out = worker.answer(header, fds)
        frames.close_fds(fds)
        answer["id"] = header.get("id")
        try:
            frames.send(sock, answer, out)
        except frames.FrameError as error:
            frames.send(sock, {"id": header.get("id"), **_failure("model_failed", f"The answer is too large: {error}")})
        except OSError as error:
            print(f"worker: the GPU manager is gone: {error}", file=sys.stderr)
            return 0
        finally:
            for fd in out:
                os.close(fd)
