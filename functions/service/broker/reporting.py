"""What a replica's models were called for, for whoever asks at `/_/calls`: how often, how long, how many bytes.

Only where the host's settings say `report_calls`, as `slicewise check` has it on its private platform: callers
of a function have no business with the names of its methods. Nothing here changes a call.
"""

from __future__ import annotations

import statistics
import time
from collections import deque
from collections.abc import Awaitable
from dataclasses import dataclass, field
from typing import Any

from functions.service.broker.doors import Answer
from proto.types.errors import SlicewiseError
from proto.wire import frames

KEPT_SAMPLES = 1000  # of one method, the newest
MAX_METHODS = 512  # a function that makes up more is not worth more memory
READ = "$read"  # weights that are read here, no call of the model


@dataclass(slots=True)
class _Method:
    count: int = 0
    failed: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    seconds: deque[float] = field(default_factory=lambda: deque(maxlen=KEPT_SAMPLES))
    infer_s: deque[float] = field(default_factory=lambda: deque(maxlen=KEPT_SAMPLES))
    error: dict[str, Any] = field(default_factory=dict)


class CallReport:
    """Seconds are counted from the start of the function's process; bytes are those of payloads, all calls together."""

    def __init__(self) -> None:
        self._started = time.monotonic()
        self._hello: frames.Header = {}
        self._hello_s = self._registered_s = self._serving_s = 0.0
        self._models: dict[str, dict[str, Any]] = {}
        self._methods: dict[tuple[str, str], _Method] = {}

    def started(self) -> None:
        """The function's process has been started; its hello may be here before this word of it."""
        if not self._hello:
            self._started = time.monotonic()

    def gone(self) -> None:
        """It has ended: what is known of its start does not hold for the next one."""
        self._started = time.monotonic()
        self._hello = {}
        self._hello_s = self._registered_s = self._serving_s = 0.0

    def greeted(self, header: frames.Header) -> None:
        """The runtime said hello; its first time counts."""
        if not self._hello:
            self._hello = {key: header.get(key) for key in ("pid", "python", "torch", "argv")}
            self._hello_s = self._since()

    def serving(self) -> None:
        """The function answers from now on."""
        self._serving_s = self._since()

    def registered(self, header: frames.Header) -> None:
        """A model was registered, with its package or because the platform had it already."""
        model = dict(header.get("model") or {})
        kept = ("digest", "kind", "class_name", "tensor_bytes", "torch", "distributions")
        self._models[str(model.get("digest"))] = {key: model.get(key) for key in kept}
        if not self._serving_s:
            self._registered_s = self._since()

    async def watch(self, header: frames.Header, call: Awaitable[Answer]) -> Answer:
        """Let a model call run, and note what it took and what became of it."""
        key = (str(header.get("model")), str(header.get("method") or "forward"))
        if key not in self._methods and len(self._methods) >= MAX_METHODS:
            return await call
        method = self._methods.setdefault(key, _Method())
        method.count += 1
        method.bytes_in += int(header.get("bytes") or 0)
        began = time.perf_counter()
        try:
            answer = await call
        except SlicewiseError as error:
            method.failed += 1
            method.error = {"code": error.code, "message": error.message}
            raise
        finally:
            method.seconds.append(time.perf_counter() - began)
        told = answer[0]
        if told.get("ok"):
            method.bytes_out += int(told.get("bytes") or 0)
            method.infer_s.append(float((told.get("phases") or {}).get("infer_s") or 0.0))
        else:
            method.failed += 1
            method.error = {**(told.get("error") or {}), "exception": told.get("exception")}
        return answer

    def document(self) -> dict[str, Any]:
        """Everything as JSON. A time that has not come yet is null."""
        return {
            "greeted": bool(self._hello),
            "runtime": self._hello,
            "hello_s": self._hello_s or None,
            "registered_s": self._registered_s or None,
            "serving_s": self._serving_s or None,
            "models": list(self._models.values()),
            "calls": [_document(*key, method) for key, method in self._methods.items()],
        }

    def _since(self) -> float:
        return time.monotonic() - self._started


def _document(model: str, name: str, method: _Method) -> dict[str, Any]:
    return {
        "model": model,
        "method": name,
        "count": method.count,
        "failed": method.failed,
        "bytes_in": method.bytes_in,
        "bytes_out": method.bytes_out,
        "median_s": statistics.median(method.seconds) if method.seconds else None,
        "infer_median_s": statistics.median(method.infer_s) if method.infer_s else None,
        "error": method.error or None,
    }
