"""One loaded model and its calls: arguments out of a payload, the method, the answer into another."""

from __future__ import annotations

import contextlib
import io
import json
import os
import pickle
import traceback
from dataclasses import dataclass
from typing import Any

import torch

from . import sources
from .changes import Changes
from .loading import Loaded
from .outlets import Line, Outlet
from .sharing import payload, tree
from .state import ModuleSnapshot, ScriptSnapshot

# Reads tensors by name instead of running anything: what `state_dict()` values and `.cpu()` are made of.
READ = "$read"


class ModelFailed(Exception):
    """The model raised; `cause` is what, `trace` its traceback from the model on."""

    def __init__(self, cause: BaseException, state: bool) -> None:
        super().__init__(str(cause))
        self.cause = cause
        self.state = state
        inside = cause.__traceback__
        for _ in range(2):  # our own two frames say nothing about the model
            inside = inside.tb_next if inside is not None and inside.tb_next is not None else inside
        self.trace = "".join(traceback.format_exception(type(cause), cause, inside))


@dataclass(slots=True)
class Result:
    """An answer's payload; whoever gets it closes `fd`."""

    fd: int
    size: int
    layout: dict[str, Any]
    state: bool


class _Arguments(pickle.Unpickler):
    """Arguments of a call: tensors by index into the payload, the caller's objects by their number."""

    def __init__(self, file: io.BytesIO, tensors: list[torch.Tensor], line: Line) -> None:
        super().__init__(file)
        self._tensors = tensors
        self._line = line

    def find_class(self, module: str, name: str) -> Any:
        return super().find_class(sources.MAIN if module == "__main__" else module, name)

    def persistent_load(self, pid: Any) -> torch.Tensor | Outlet:
        return self._tensors[pid] if isinstance(pid, int) else self._line.outlet(pid[1])


class Running:
    """A model that answers calls and knows whether they changed it."""

    def __init__(self, loaded: Loaded, device: torch.device) -> None:
        self._loaded = loaded
        self._device = device
        self._snapshot: ModuleSnapshot | ScriptSnapshot
        self._snapshot = ScriptSnapshot(loaded) if loaded.kind == "torchscript" else ModuleSnapshot(loaded)
        self._changes = Changes(loaded)
        self._dirty = False

    @property
    def mapped_bytes(self) -> int:
        """Bytes of the package file that this model keeps mapped."""
        return self._loaded.mapped_bytes

    def infer(self, method: str, layout: dict[str, Any], fd: int, line: Line) -> Result:
        """Run one method, which may speak to its caller on `line`; raises ModelFailed when the model does."""
        buffer = payload.map_file(fd, os.fstat(fd).st_size)
        tensors = payload.tensors_of(buffer, layout["tensors"])
        if self._device.type != "cpu":
            tensors = [tensor.to(self._device) for tensor in tensors]
        gathering = payload.Gathering()
        try:
            arguments, keywords, context = _read(io.BytesIO(buffer[: layout["blob"]]), tensors, line)
            self._dirty = self._changes.apply(context) or self._dirty
            with torch.no_grad(), self._autocast(context):
                value = self._call(method, arguments, keywords)
                blob = _dump(tree.encode(value, gathering))
        except BaseException as error:
            self._dirty = self._dirty or self._snapshot.changed()
            raise ModelFailed(error, self._dirty) from error
        self._dirty = self._dirty or self._snapshot.changed()
        answer_layout, buffers, size = gathering.lay_out(blob)
        return Result(payload.to_memfd(buffers, "slicewise-answer"), size, answer_layout, self._dirty)

    def _autocast(self, context: dict[str, Any]) -> contextlib.AbstractContextManager[Any]:
        """As around the call in the user's process, on whatever device this is."""
        if "autocast" not in context:
            return contextlib.nullcontext()
        dtype = getattr(torch, context["autocast"])
        autocast: contextlib.AbstractContextManager[Any] = torch.autocast(self._device.type, dtype=dtype)
        return autocast

    def _call(self, method: str, arguments: Any, keywords: Any) -> Any:
        root = self._loaded.root
        if method == READ:
            return [_named(root, name).detach().clone() for name in arguments[0]]
        path, _, name = method.rpartition(".")
        target = root.get_submodule(path) if path else root
        if name in ("forward", "__call__"):
            return target(*arguments, **keywords)
        return getattr(target, name)(*arguments, **keywords)

    def reset(self) -> None:
        """Undo what calls changed, for the next binding."""
        if self._dirty or self._snapshot.changed():
            self._changes.undo()
            self._snapshot.restore()
            self._dirty = False


def _read(blob: io.BytesIO, tensors: list[torch.Tensor], line: Line) -> tuple[Any, Any, dict[str, Any]]:
    """(arguments, keywords, context) of a call; classes of the user's own among them come with their sources."""
    first = _Arguments(blob, tensors, line).load()
    if isinstance(first, tuple):
        return first[0], first[1], {}
    if first.get("sources"):
        sources.add(first["sources"])
        for owner, name, value in first["values"]:
            setattr(sources.module(owner), name, value)
    arguments, keywords = _Arguments(blob, tensors, line).load()
    return arguments, keywords, first


def _named(root: torch.nn.Module, name: str) -> torch.Tensor:
    path, _, last = name.rpartition(".")
    value = getattr(root.get_submodule(path), last)
    assert isinstance(value, torch.Tensor)
    return value


tree.is_own = sources.has


def _dump(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), allow_nan=False).encode()
