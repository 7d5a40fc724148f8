"""A model's state lives for one invocation: what a call changed is seen cheaply and put back exactly.

A snapshot holds, for every dict, list, set and object that is reachable from the module's attributes, a shallow
copy, and for every tensor its version counter. Comparing costs a dict comparison by identity a
container. TorchScript modules keep their attributes in C++; theirs are read by name.
Tensors of the package are restored from its file, so a snapshot holds no second copy of the weights.
"""

from __future__ import annotations

import types
from collections import deque
from typing import Any

import torch

from .loading import Loaded

# A model whose attributes hold more containers than this is watched in its modules' dicts only.
MAX_CELLS = 20_000
_LEAVES = (int, float, complex, bool, str, bytes, type(None), type, types.FunctionType, types.BuiltinFunctionType,
           types.MethodType, types.ModuleType, torch.dtype, torch.device, torch.Size)  # fmt: skip


class ModuleSnapshot:
    """The state of a Python module right after its load."""

    def __init__(self, loaded: Loaded) -> None:
        self._loaded = loaded
        self._record_of = {id(tensor): index for tensor, index in loaded.placed}
        self._cells: list[tuple[Any, Any]] = []
        self._tensors: list[torch.Tensor] = []
        self._clones: dict[int, torch.Tensor] = {}
        self._collect(loaded.root)
        self._versions = [tensor._version for tensor in self._tensors]

    def _collect(self, root: torch.nn.Module) -> None:
        seen: set[int] = set()
        pending: deque[Any] = deque([root])
        while pending and len(self._cells) < MAX_CELLS:
            value = pending.popleft()
            if isinstance(value, _LEAVES) or id(value) in seen:
                continue
            seen.add(id(value))
            if isinstance(value, torch.Tensor):
                self._tensors.append(value)
                if id(value) not in self._record_of:
                    self._clones[id(value)] = value.detach().clone()
                continue
            if isinstance(value, dict):
                self._cells.append((value, dict(value)))
                pending.extend(value.values())
            elif isinstance(value, (list, deque, set, bytearray)):
                self._cells.append((value, value.copy()))
                if not isinstance(value, bytearray):
                    pending.extend(value)
            elif isinstance(value, (tuple, frozenset)):
                pending.extend(value)
            attributes = getattr(value, "__dict__", None)
            if isinstance(attributes, dict):
                pending.append(attributes)

    def changed(self) -> bool:
        """Whether anything differs from the snapshot."""
        try:
            for container, copy in self._cells:
                if container != copy:
                    return True
            for tensor, version in zip(self._tensors, self._versions, strict=True):
                if tensor._version != version:
                    return True
        except (RuntimeError, ValueError, TypeError):
            # Comparing two different tensors or arrays has no single truth: they are different objects.
            return True
        return False

    def restore(self) -> None:
        """Put everything back as it was."""
        for container, copy in self._cells:
            if isinstance(container, (dict, set)):
                container.clear()
                container.update(copy)
            elif isinstance(container, deque):
                container.clear()
                container.extend(copy)
            else:
                container[:] = copy
        with torch.no_grad():
            for position, tensor in enumerate(self._tensors):
                if tensor._version != self._versions[position]:
                    self._refill(tensor)
                    self._versions[position] = tensor._version

    def _refill(self, tensor: torch.Tensor) -> None:
        index = self._record_of.get(id(tensor))
        if index is None:
            tensor.copy_(self._clones[id(tensor)])
            return
        assert self._loaded.pristine is not None
        record = self._loaded.records[index]
        record.copy_(self._loaded.pristine(index))


class ScriptSnapshot:
    """The state of a TorchScript module right after its load: attributes and buffers of every submodule."""

    def __init__(self, loaded: Loaded) -> None:
        self._loaded = loaded
        self._attributes: list[tuple[Any, str, Any, Any]] = []
        self._parameters = [parameter for _, parameter in loaded.root.named_parameters()]
        self._versions = [parameter._version for parameter in self._parameters]
        for _, module in loaded.root.named_modules():
            for name in _attribute_names(module):
                value = module._c.getattr(name)
                self._attributes.append((module._c, name, value, _copied(value)))
        self._last = [_print(value) for *_, value, _ in self._attributes]

    def changed(self) -> bool:
        """Whether an attribute, a buffer or a parameter differs from the snapshot."""
        if any(p._version != v for p, v in zip(self._parameters, self._versions, strict=True)):
            return True
        return any(
            _print(owner.getattr(name)) != last
            for (owner, name, _, _), last in zip(self._attributes, self._last, strict=True)
        )

    def restore(self) -> None:
        """Put every attribute back; parameters that a call changed cost a reload of the archive."""
        if any(p._version != v for p, v in zip(self._parameters, self._versions, strict=True)):
            assert self._loaded.reload is not None
            self._loaded.root = self._loaded.reload()
            self.__init__(self._loaded)  # type: ignore[misc]
            return
        for position, (owner, name, _, copy) in enumerate(self._attributes):
            if _print(owner.getattr(name)) != self._last[position]:
                value = _copied(copy)
                owner.setattr(name, value)
                self._last[position] = _print(owner.getattr(name))


def _attribute_names(module: torch.nn.Module) -> list[str]:
    concrete = getattr(module, "_concrete_type", None)
    if concrete is None:
        return []
    return [name for name, (_, is_parameter) in concrete.get_attributes().items() if not is_parameter]


def _copied(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.detach().clone()
    if isinstance(value, dict):
        return {key: _copied(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_copied(item) for item in value)
    return value


def _print(value: Any) -> Any:
    """A value that differs whenever the attribute does: identity and version of tensors, values of the rest."""
    if isinstance(value, torch.Tensor):
        return (value.data_ptr(), value._version, tuple(value.shape))
    if isinstance(value, dict):
        return [(key, _print(item)) for key, item in value.items()]
    if isinstance(value, (list, tuple)):
        return [_print(item) for item in value]
    return value
