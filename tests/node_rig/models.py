"""Real model packages and call payloads, made the way the runtime makes them."""

from __future__ import annotations

import io
import json
import os
import pickle
import sys
from dataclasses import dataclass
from typing import Any

import torch

from gpu_manager.worker.sharing import package, payload, tree
from proto.types.models import Model

sys.path.insert(0, str(package.__file__.rpartition("/_slicewise/")[0]))
from _slicewise import registering

sys.path.pop(0)

PYTHON = f"{sys.version_info[0]}.{sys.version_info[1]}"


@dataclass
class Package:
    """A model's record and its package in a memfd."""

    model: Model
    fd: int


def pack(module: torch.nn.Module, worker: str) -> Package:
    manifest, skeleton, sources, tensors, *_ = registering._module(module, torch)
    fd, size = package.write(manifest, skeleton, sources, tensors)
    model = Model(
        digest=manifest["digest"], worker=worker, kind="module", class_name=manifest["class_name"],
        tensor_bytes=manifest["tensor_bytes"], package_bytes=size, python=PYTHON, torch=str(torch.__version__),
    )  # fmt: skip
    return Package(model, fd)


class _Arguments(pickle.Pickler):
    def __init__(self, file: io.BytesIO, gathering: Any) -> None:
        super().__init__(file)
        self._gathering = gathering

    def persistent_id(self, obj: Any) -> int | None:
        return self._gathering.add(obj) if isinstance(obj, torch.Tensor) else None


def call_payload(*arguments: Any) -> tuple[dict[str, Any], int, int]:
    """(layout, bytes, descriptor) of a call."""
    gathering = payload.Gathering()
    file = io.BytesIO()
    _Arguments(file, gathering).dump((arguments, {}))
    layout, buffers, size = gathering.lay_out(file.getvalue())
    return layout, size, payload.to_memfd(buffers)


def result(layout: dict[str, Any], fd: int) -> Any:
    """What a model returned."""
    buffer = payload.map_file(fd, os.fstat(fd).st_size)
    tensors = payload.tensors_of(buffer, layout["tensors"])
    return tree.decode(json.loads(bytes(buffer[: layout["blob"]])), tensors)
