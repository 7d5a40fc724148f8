"""From a package file to a module that can run: tensors mapped, sources importable, skeleton read.

Pickle is read here and nowhere else in the platform. On a CPU slice the tensors are a private
mapping of the package file, so a load is bounded by the page cache and a write in place copies
one page; on a GPU they go to the device.
"""

from __future__ import annotations

import hashlib
import importlib
import io
import os
import pickle
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from . import sources
from .sharing import package, payload, tree


class BadPackage(Exception):
    """The package is not what its digest, its manifest or its hashes say."""


@dataclass
class Loaded:
    """One model in this worker. `pristine(i)` gives tensor i of the package as it was stored."""

    digest: str
    kind: str
    root: torch.nn.Module
    mapped_bytes: int
    placed: list[tuple[torch.Tensor, int]] = field(default_factory=list)  # package tensors in use, their record
    records: list[torch.Tensor] = field(default_factory=list)
    pristine: Callable[[int], torch.Tensor] | None = None
    reload: Callable[[], torch.nn.Module] | None = None


class _Skeleton(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, records: list[torch.Tensor], placed: list[tuple[torch.Tensor, int]]) -> None:
        super().__init__(file)
        self._records = records
        self._placed = placed
        self._made: dict[int, torch.Tensor] = {}
        self._seen: dict[Any, torch.Tensor] = {}

    def find_class(self, module: str, name: str) -> Any:
        return super().find_class(sources.MAIN if module == "__main__" else module, name)

    def persistent_load(self, pid: Any) -> torch.Tensor:
        kind, index, shape, stride, offset, requires_grad, number = pid
        known = self._seen.get(number)
        if known is not None:
            return known
        record = self._records[index]
        if tuple(record.shape) == tuple(shape) and record.stride() == tuple(stride) and offset == 0:
            tensor = record.view(record.shape)
        else:
            tensor = record.reshape(-1).as_strided(shape, stride, offset)
        if kind == "parameter":
            tensor = torch.nn.Parameter(tensor, requires_grad=requires_grad)
        elif requires_grad:
            tensor.requires_grad_(True)
        self._seen[number] = tensor
        self._placed.append((tensor, index))
        return tensor


def load(fd: int, digest: str, kind: str, device: torch.device) -> Loaded:
    """Build the model of the package behind `fd`; raises BadPackage, or whatever the user's classes raise."""
    try:
        manifest, start = package.read_manifest(fd)
    except ValueError as error:
        raise BadPackage(str(error)) from error
    if manifest.get("digest") != digest or manifest.get("kind") != kind:
        raise BadPackage(
            f"The package says it is {manifest.get('kind')} {manifest.get('digest')}, not {kind} {digest}."
        )
    skeleton = _section(fd, manifest, start, "skeleton")
    archive = _section(fd, manifest, start, "sources")
    if archive:
        sources.add(archive)
    for name in manifest.get("modules") or []:
        importlib.import_module(name)
    for owner, name, value in manifest.get("values") or []:
        setattr(sources.module(owner), name, tree.decode(value, []))
    if kind == "torchscript":
        return _load_script(skeleton, manifest, digest, device)
    if kind == "exported":
        return _load_exported(skeleton, digest, device)
    return _load_module(fd, start, skeleton, manifest, digest, device)


def _section(fd: int, manifest: dict[str, Any], start: int, name: str) -> bytes:
    offset, size = manifest[name]
    data = os.pread(fd, size, start + offset) if size else b""
    if len(data) != size or hashlib.sha256(data).hexdigest() != manifest[f"{name}_sha256"]:
        raise BadPackage(f"The package is damaged: its {name} does not match its hash.")
    return data


def _load_script(archive: bytes, manifest: dict[str, Any], digest: str, device: torch.device) -> Loaded:
    training = bool(manifest.get("training"))

    def build() -> torch.nn.Module:
        root = torch.jit.load(io.BytesIO(archive), map_location=device)
        if hasattr(root, "training"):
            root.train(training)
        return root

    return Loaded(digest, "torchscript", build(), mapped_bytes=0, reload=build)


def _load_exported(archive: bytes, digest: str, device: torch.device) -> Loaded:
    def program() -> torch.export.ExportedProgram:
        loaded = torch.export.load(io.BytesIO(archive))
        if device.type != "cpu":
            from torch.export.passes import move_to_device_pass

            loaded = move_to_device_pass(loaded, device)
        return loaded

    root = program().module()
    records: list[torch.Tensor] = list(root.parameters())
    names = [name for name, _ in root.named_parameters()]

    def pristine(index: int) -> torch.Tensor:
        return program().state_dict[names[index]]

    placed = [(tensor, index) for index, tensor in enumerate(records)]
    return Loaded(digest, "exported", root, 0, placed, records, pristine)


def _load_module(
    fd: int, start: int, skeleton: bytes, manifest: dict[str, Any], digest: str, device: torch.device
) -> Loaded:
    size = os.fstat(fd).st_size
    buffer = payload.map_file(fd, size)
    entries = [[dtype, shape, start + offset, nbytes] for dtype, shape, offset, nbytes in manifest["tensors"]]
    try:
        on_host = payload.tensors_of(buffer, entries)
    except ValueError as error:
        raise BadPackage(str(error)) from error
    mapped = size
    records = on_host
    if device.type != "cpu":
        records = [tensor.to(device) for tensor in on_host]
        torch.cuda.synchronize()
        mapped = 0
    kept = os.dup(fd)

    def pristine(index: int) -> torch.Tensor:
        dtype, shape, offset, nbytes = entries[index]
        data = bytearray(os.pread(kept, nbytes, offset))
        return payload.tensors_of(data, [[dtype, shape, 0, nbytes]])[0]

    placed: list[tuple[torch.Tensor, int]] = []
    root = _Skeleton(io.BytesIO(skeleton), records, placed).load()
    if not isinstance(root, torch.nn.Module):
        raise BadPackage("The package's skeleton is no torch module.")
    _tell_libraries(root)
    return Loaded(digest, "module", root, mapped, placed, records, pristine)


def _tell_libraries(root: torch.nn.Module) -> None:
    """What transformers notes when a model is made, which a pickle does not say: the outputs that it can record."""
    capturing = sys.modules.get("transformers.utils.output_capturing")
    registry = getattr(capturing, "_CAN_RECORD_REGISTRY", None)
    if registry is not None:
        for part in root.modules():
            recorded = getattr(part, "_can_record_outputs", None)
            if recorded is not None:
                registry[part] = recorded
