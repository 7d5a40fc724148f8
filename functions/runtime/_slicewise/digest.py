"""A model's digest: the same in every replica, whatever PYTHONHASHSEED or the pickler's memo say.

It is the sha256 of the package's `identity`: the code bundle's digest, the class names, every tensor as (name, dtype,
shape, stride, offset, sha256 of its bytes) in sorted order, and a hash of the canonical form of
everything else. For TorchScript the archive's bytes are everything. Never over a pickle stream.

The canonical form walks what pickle would store (`__reduce_ex__`), sorts dicts and sets, and names
classes and functions; module order (`_modules`) counts, because a Sequential runs in it.
"""

import copyreg
import hashlib
import json
import sys
import types

from . import byvalue

MAX_DEPTH = 400


def of_identity(identity) -> str:
    """The digest of an identity: sha256 over its JSON with sorted keys and no spaces."""
    data = json.dumps(identity, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode()
    return hashlib.sha256(data).hexdigest()


def of_tensor(view) -> str:
    """sha256 of a buffer."""
    return hashlib.sha256(view).hexdigest()


class Canonical:
    """Walks an object graph once; `text()` is its canonical form, `tensors` what it met on the way."""

    def __init__(self, plain=None) -> None:
        self._torch = sys.modules["torch"]
        self._plain = plain
        self._seen = {}
        self.tensors = []  # (path, tensor), each object once
        self.classes = set()

    def walk(self, value, path="", depth=0):
        """A JSON-able form of `value`."""
        if value is None or value is True or value is False or type(value) in (int, str):
            return value
        if type(value) is float:
            return ["float", value.hex()]
        if isinstance(value, (bytes, bytearray)):
            return [type(value).__name__, hashlib.sha256(value).hexdigest()]
        if isinstance(value, types.FunctionType) and byvalue.is_nameless(value) and id(value) not in self._seen:
            self._seen[id(value)] = (len(self._seen), value)
            return ["function", self.walk(byvalue.canonical(value), path, depth + 1)]
        if isinstance(value, (type, types.FunctionType, types.BuiltinFunctionType)):
            return ["name", getattr(value, "__module__", None), getattr(value, "__qualname__", repr(type(value)))]
        if isinstance(value, types.ModuleType):
            return ["module", value.__name__]
        known = self._seen.get(id(value))
        if known is not None:
            return ["seen", known[0]]
        self._seen[id(value)] = (len(self._seen), value)  # the reference keeps the id its own
        if depth > MAX_DEPTH:
            return ["deep", type(value).__qualname__]
        if isinstance(value, self._torch.Tensor):
            self.tensors.append((path, value))
            return ["tensor", path]
        return self._structure(value, path, depth + 1)

    def _structure(self, value, path, depth):
        kind = type(value)
        if kind in (list, tuple):
            items = [self.walk(item, "{}.{}".format(path, index), depth) for index, item in enumerate(value)]
            return [kind.__name__, items]
        if kind in (set, frozenset):
            # Items are sorted before they are numbered, so each is walked by itself.
            return [kind.__name__, sorted(json.dumps(Canonical().walk(item)) for item in value)]
        if isinstance(value, dict) and kind.__module__ in ("builtins", "collections"):
            return [kind.__name__, self._pairs(value, path, depth)]
        self.classes.add("{}.{}".format(kind.__module__, kind.__qualname__))
        return self._object(value, kind, path, depth)

    def _pairs(self, value, path, depth):
        pairs = []
        for key in sorted(value, key=_order):
            name = key if isinstance(key, str) else repr(key) if isinstance(key, (int, float)) else "?"
            if isinstance(key, str) and key in ("_parameters", "_buffers", "_modules"):
                where = path  # names of tensors as state_dict gives them
            else:
                where = "{}.{}".format(path, name) if path else name
            pairs.append([self.walk(key, where, depth), self.walk(value[key], where, depth)])
        return pairs

    def _keras(self, layer, path, depth):
        """Its configuration and weights; what Keras pickles says when it was made."""
        try:
            form = self.walk(sys.modules["keras"].saving.serialize_keras_object(layer), path, depth)
        except Exception:  # a subclass that has no configuration
            return [self._pairs(self._plain(vars(layer)) if self._plain else vars(layer), path, depth)]
        for variable in layer.variables:
            self.tensors.append(("{}.{}".format(path, variable.path), variable.value))
        return [form]

    def _object(self, value, kind, path, depth):
        name = ["object", kind.__module__, kind.__qualname__]
        layer = getattr(sys.modules.get("keras"), "Layer", None)
        if layer is not None and isinstance(value, layer):
            return [*name, *self._keras(value, path, depth)]
        try:
            reduced = copyreg.dispatch_table[kind](value) if kind in copyreg.dispatch_table else None
            if isinstance(value, self._torch.nn.Module) and byvalue.is_parametrized(value):
                reduced = byvalue.reduce_parametrized(value, dict(vars(value)))[:3]
            if reduced is None:
                reduced = kind.__reduce_ex__(value, 2)
        except Exception:
            return [*name, "opaque"]
        if isinstance(reduced, str):
            return ["name", kind.__module__, reduced]
        function, arguments, state, items, pairs = (tuple(reduced) + (None,) * 5)[:5]
        form = [*name, self.walk(function, path, depth), self.walk(list(arguments or ()), path, depth)]
        if isinstance(state, dict):
            if self._plain is not None and isinstance(value, self._torch.nn.Module):
                state = self._plain(state)
            form.append(self._pairs(state, path, depth))
            if isinstance(state.get("_modules"), dict):
                form.append(list(state["_modules"]))
        else:
            form.append(self.walk(state, path, depth))
        if items is not None:
            form.append([self.walk(item, "{}.{}".format(path, index), depth) for index, item in enumerate(items)])
        if pairs is not None:
            form.append(self._pairs(dict(pairs), path, depth))
        return form


def _order(key):
    return (type(key).__name__, key if isinstance(key, str) else repr(key))


def identity_of(module, bundle: str, record_hash, plain=None, values=()):
    """The identity of a Python module; `record_hash(tensor)` is the sha256 of its storage's bytes.

    `plain` as for package.skeleton_of, `values` as shaking.sources_of gives them.
    """
    canonical = Canonical(plain)
    form = canonical.walk(module)
    rest = hashlib.sha256(json.dumps(form, separators=(",", ":")).encode()).hexdigest()
    tensors = []
    for name, tensor in canonical.tensors:
        tensors.append(
            [
                name,
                str(tensor.dtype)[6:],
                list(tensor.shape),
                list(tensor.stride()),
                tensor.storage_offset(),
                bool(tensor.requires_grad),
                record_hash(tensor),
            ]
        )
    told = [[owner, name, Canonical().walk(value)] for owner, name, value in values]
    return {
        "kind": "module",
        "values": hashlib.sha256(json.dumps(told, separators=(",", ":")).encode()).hexdigest(),
        "bundle": bundle,
        "classes": sorted(canonical.classes),
        "tensors": sorted(tensors),
        "rest": rest,
    }


def identity_of_archive(archive: bytes, training: bool):
    """The identity of a TorchScript module: its archive and its mode."""
    return {"kind": "torchscript", "archive": hashlib.sha256(archive).hexdigest(), "training": training}
