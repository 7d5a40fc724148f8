"""A model call between the door and a slice: who sent it, what it carries, how it is answered."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from gpu_manager.core.events import Need, Usual
from gpu_manager.core.instructions import Answer
from proto.types.errors import SlicewiseError
from proto.types.models import Model
from proto.types.placing import Binding
from proto.wire import frames

# (header without id, descriptors); the receiver closes the descriptors.
Reply = Callable[[dict[str, Any], list[int]], None]


@dataclass(slots=True)
class PendingCall:
    """One Infer. `fd` is its payload, `stream` the way to its caller's streamers (-1: none), ours until `drop`."""

    id: int
    binding: Binding
    model: str
    method: str
    layout: Any
    batch: int
    fd: int
    reply: Reply
    stream: int = -1
    result: dict[str, Any] = field(default_factory=dict)
    result_fds: list[int] = field(default_factory=list)

    def drop(self) -> None:
        """Close what it still holds."""
        if self.fd >= 0:
            frames.close_fds([self.fd])
            self.fd = -1
        if self.stream >= 0:
            frames.close_fds([self.stream])
            self.stream = -1
        frames.close_fds(self.result_fds)
        self.result_fds = []

    def answer(self, answer: Answer) -> None:
        """Tell whoever sent it, and give the result's descriptors away."""
        header: dict[str, Any] = {
            "slice": self.binding.slice,
            "cache": "hit" if answer.hit else "miss",
            "phases": {
                "queue_s": answer.queue_ns / 1e9,
                "load_s": answer.load_ns / 1e9,
                "infer_s": answer.infer_ns / 1e9,
            },
            "state": answer.state,
        }
        fds: list[int] = []
        if answer.failure is None:
            header |= {"ok": True, "bytes": self.result.get("bytes", 0), "layout": self.result.get("layout")}
            fds, self.result_fds = self.result_fds, []
        else:
            header |= failed(answer.failure, repeatable=answer.repeatable)
            if "exception" in self.result:
                header["exception"] = self.result["exception"]
        self.drop()
        self.reply(header, fds)


def failed(error: SlicewiseError, *, repeatable: bool = False) -> dict[str, Any]:
    """A failure as frames carry it."""
    described: dict[str, Any] = {"code": error.code, "message": error.message}
    if error.retry_after_s:
        described["retry_after_s"] = error.retry_after_s
    return {"ok": False, "error": described, "repeatable": repeatable}


@dataclass(frozen=True, slots=True)
class Preparation:
    """What a binding needs on its slice. `sources`: digest -> addresses of nodes that have the package."""

    binding: Binding
    models: tuple[Model, ...] = ()
    sources: dict[str, tuple[str, ...]] = field(default_factory=dict)
    usual: Usual = field(default_factory=Usual)
    held_bytes: int = 0

    def needs(self) -> tuple[Need, ...]:
        """The models for the core."""
        return tuple(Need(model.digest, model.tensor_bytes) for model in self.models)
