"""What a handler has changed on its model since the registration, made here too for one invocation.

The runtime's watching.py says what, with each call of the model; a version that has been made already is not made
again, since the model's own calls may have gone on from it.
"""

from __future__ import annotations

from typing import Any

import torch

from . import sources
from .loading import Loaded


class Changes:
    """Of one model in this worker."""

    def __init__(self, loaded: Loaded) -> None:
        self._loaded = loaded
        self._version = ""
        self._seed = 0
        self._modes: Any = None
        self._originals: dict[tuple[str, str], Any] = {}

    def apply(self, context: dict[str, Any]) -> bool:
        """Make what the context of a call says; whether anything differs from what was loaded because of it."""
        changed = False
        modes = context.get("modes")
        if modes is not None and modes != self._modes:
            self._modes = modes
            self._set_modes(*modes)
            changed = True
        if context.get("version", "") != self._version:
            for record in context.get("records") or ():
                self._make(*record)
            self._version = context.get("version", "")
            changed = True
        number, seed = context.get("seed") or (0, 0)
        if number != self._seed:
            torch.manual_seed(seed)
            self._seed = number
            changed = True
        return changed

    def undo(self) -> None:
        """Put back what no snapshot of the model holds; the next call begins anew."""
        for (owner, name), value in self._originals.items():
            setattr(sources.module(owner), name, value)
        self._originals.clear()
        if self._seed:
            torch.seed()
        self._version, self._seed, self._modes = "", 0, None

    def _set_modes(self, mode: bool, others: list[str]) -> None:
        root = self._loaded.root
        if root.training != mode or others:
            root.train(mode)
        for path in others:
            root.get_submodule(path).training = not mode

    def _make(self, kind: str, where: str, *more: Any) -> None:
        if kind == "value":
            name, value = more
            owner = sources.module(where)
            self._originals.setdefault((where, name), getattr(owner, name, None))
            setattr(owner, name, value)
            return
        part = self._loaded.root.get_submodule(where) if where else self._loaded.root
        if kind == "set":
            name, value = more
            buffer = name in part._buffers and isinstance(value, torch.Tensor)
            setattr(part, name, value if not buffer else value.detach())
        elif kind == "delete":
            if hasattr(part, more[0]):
                delattr(part, more[0])
        elif kind == "update":
            steps, shape, changed, removed = more
            cell = _reach(part, steps, shape)
            for key in removed:
                cell.pop(key, None)
            cell.update(changed)
        else:
            steps, shape, items = more
            _fill(_reach(part, steps, shape), items)


def _reach(part: Any, steps: list[Any], shape: str) -> Any:
    """The container that a path of attributes and items leads to; of an object, its attributes."""
    value = part
    for kind, name in steps:
        value = getattr(value, name) if kind == "a" else value[name]
    return value.__dict__ if shape == "o" else value


def _fill(cell: Any, items: Any) -> None:
    cell.clear()
    if isinstance(cell, (dict, set)):
        cell.update(items)
    else:
        cell.extend(items)
