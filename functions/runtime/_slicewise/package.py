"""The package: one file that holds a model as it enters the model store.

`[8 bytes length][manifest JSON][skeleton pickle or TorchScript archive][sources][aligned tensors]`. Offsets
in the manifest count from the first aligned byte behind it. The skeleton is a pickle of the
module in which every tensor is a persistent id; it is read inside a worker only.

The manifest's `identity` is what the digest is taken over (digest.py): who holds the file can check
it without reading a pickle. `skeleton_sha256` and `sources_sha256` guard the rest against damage.
"""

import copyreg
import hashlib
import io
import json
import os
import pickle
import sys

from . import byvalue, payload, remote
from .errors import SlicewiseError, not_carried

FORMAT = 1


class _Skeleton(pickle.Pickler):
    """Pickles a module; tensors become (class, record, shape, stride, offset, requires_grad, number)."""

    def __init__(self, file, tensors, plain=None) -> None:
        super().__init__(file, protocol=4)
        self._tensors = tensors
        self._plain = plain
        self._torch = sys.modules["torch"]
        self.names = set()  # (module, qualified name) of classes and functions met

    def reducer_override(self, obj):
        if self._plain is None or not isinstance(obj, self._torch.nn.Module):
            return byvalue.named_or_reduced(obj, self.names)
        for part in _keras_layers(obj):
            self.names.add((type(part).__module__, type(part).__qualname__))
        if byvalue.is_parametrized(obj):
            return byvalue.reduce_parametrized(obj, self._plain(vars(obj)))
        function, arguments, *more = _reduced(obj)
        if more and isinstance(more[0], dict):
            more[0] = self._plain(more[0])
        return (function, arguments, *more)

    def persistent_id(self, obj):
        torch = self._torch
        if isinstance(obj, torch.Tensor):
            return self._tensors.place(obj)
        if isinstance(obj, torch.UntypedStorage):
            raise not_carried("a bare torch storage in a model's attributes", "keep the tensor instead.")
        return None


def _reduced(module):
    """As the module's class says; a class that says it cannot is carried by its attributes all the same."""
    try:
        return type(module).__reduce_ex__(module, 4)
    except Exception:
        return (copyreg.__newobj__, (type(module),), dict(vars(module)))


def _keras_layers(module):
    """Keras pickles a model as its configuration, which names the classes of its layers."""
    layer = getattr(sys.modules.get("keras"), "Layer", None)
    return [part for part in module.modules() if isinstance(part, layer)] if layer is not None else []


class TensorTable:
    """The tensors of a package: each storage once, views of one storage stay views of one storage."""

    def __init__(self) -> None:
        self._torch = sys.modules["torch"]
        self._records = []  # (kept alive, bytes as a contiguous tensor, dtype, shape)
        self._by_storage = {}
        self._alive = []  # ids stay unique as long as their objects live
        self._placed = {}  # id of a tensor -> persistent id

    def place(self, tensor):
        """The persistent id of this tensor; its storage gets a record at first sight."""
        known = self._placed.get(id(tensor))
        if known is None:
            known = self._placed[id(tensor)] = (*self._place(self._local(tensor)), len(self._placed))
            self._alive.append(tensor)
        return known

    def _local(self, tensor):
        """The same in this process, of a weight that another model has on its slice already."""
        if not remote.is_remote(tensor):
            return tensor
        values = remote.fetch(tensor)
        parameter = isinstance(tensor, self._torch.nn.Parameter)
        return self._torch.nn.Parameter(values, tensor.requires_grad) if parameter else values

    def _place(self, tensor):
        torch = self._torch
        kind = type(tensor)
        if kind is torch.nn.Parameter:
            name = "parameter"
        elif kind is torch.Tensor or (kind is torch.nn.Buffer if hasattr(torch.nn, "Buffer") else False):
            name = "tensor"
        else:
            raise not_carried(
                "a model with a tensor of class {}.{}".format(kind.__module__, kind.__qualname__),
                "convert it to a plain torch.Tensor before the model is moved to cuda.",
            )
        if tensor.device.type == "meta":
            raise not_carried("a model with a tensor on the meta device", "load its weights first.")
        whole = _whole_storage(torch, tensor)
        key = (tensor.untyped_storage().data_ptr(), tensor.dtype) if tensor.numel() else id(tensor)
        index = self._by_storage.get(key)
        if index is None:
            index = self._by_storage[key] = len(self._records)
            self._records.append((tensor, whole))
        self._alive.append(tensor)
        offset = tensor.storage_offset() if whole is not None else 0
        return (name, index, tuple(tensor.shape), tuple(tensor.stride()), offset, tensor.requires_grad)

    def record_of(self, tensor):
        """Index of the record that holds this tensor's bytes, None for one that is in no record."""
        placed = self._placed.get(id(tensor))
        return None if placed is None else placed[1]

    def dense(self):
        """Contiguous CPU tensors, one a record."""
        return [_record_tensor(original, whole) for original, whole in self._records]


def _whole_storage(torch, tensor):
    """The tensor's whole storage as one flat tensor; None if it has to be carried by value."""
    if tensor.layout is not torch.strided or tensor.is_quantized or not tensor.numel():
        return None
    storage = tensor.untyped_storage()
    size = storage.nbytes() // tensor.element_size()
    return torch.as_strided(tensor.detach(), (size,), (1,), 0)


def _record_tensor(original, whole):
    return payload.plain(original if whole is None else whole)


def skeleton_of(module, plain=None):
    """(pickle bytes, TensorTable, names of its classes) of a module; a member that does not pickle is named.

    `plain(state)` gives a module's attributes as the user made them, without what intercepts its calls.
    """
    table = TensorTable()
    file = io.BytesIO()
    pickler = _Skeleton(file, table, plain)
    try:
        pickler.dump(module)
    except SlicewiseError:
        raise
    except Exception as error:
        raise not_carried(
            "{} ({})".format(_culprit(module, plain), error),
            "keep lambdas, locks, open files and the like out of the module that is moved to cuda.",
        ) from error
    return file.getvalue(), table, pickler.names


def _culprit(module, plain) -> str:
    """The attribute of a module that does not pickle, for the message."""
    for path, child in module.named_modules():
        for name, value in (vars(child) if plain is None else plain(vars(child))).items():
            if name == "_modules":
                continue
            try:
                _Skeleton(io.BytesIO(), TensorTable()).dump(value)
            except Exception:
                where = "{}.{}".format(path, name) if path else name
                return "attribute {!r} of {}".format(where, type(child).__qualname__)
    return "a model of class {}".format(type(module).__qualname__)


def write(manifest, skeleton: bytes, sources: bytes, tensors):
    """Write a package into a new memfd; returns (fd, size). The caller closes the fd."""
    manifest = dict(manifest, format=FORMAT)
    manifest["skeleton"] = [0, len(skeleton)]
    manifest["skeleton_sha256"] = hashlib.sha256(skeleton).hexdigest()
    start = payload.aligned(len(skeleton))
    manifest["sources"] = [start, len(sources)]
    manifest["sources_sha256"] = hashlib.sha256(sources).hexdigest()
    buffers = [skeleton, bytes(start - len(skeleton)), sources]
    position = start + len(sources)
    entries = []
    for tensor in tensors:
        nbytes = tensor.numel() * tensor.element_size()
        offset = payload.aligned(position)
        buffers.append(bytes(offset - position))
        if nbytes:
            buffers.append(payload.tensor_view(tensor))
        entries.append([payload.dtype_name(tensor.dtype), list(tensor.shape), offset, nbytes])
        position = offset + nbytes
    manifest["tensors"] = entries
    head = json.dumps(manifest, separators=(",", ":")).encode()
    head = len(head).to_bytes(8, "little") + head
    buffers[:0] = [head, bytes(payload.aligned(len(head)) - len(head))]
    fd = payload.to_memfd(buffers, "slicewise-package")
    return fd, os.fstat(fd).st_size


def read_manifest(fd: int):
    """(manifest, where the data starts) of a package; raises ValueError for what is none."""
    size = os.fstat(fd).st_size
    length = int.from_bytes(os.pread(fd, 8, 0), "little")
    if size < 8 or not 0 < length <= size - 8:
        raise ValueError("the file is no model package: its manifest does not fit")
    manifest = json.loads(os.pread(fd, length, 8))
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise ValueError("the file is no model package of format {}".format(FORMAT))
    return manifest, payload.aligned(8 + length)
