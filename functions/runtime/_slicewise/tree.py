"""Answers as JSON trees: what a model returned, without a pickle that a user's process would have to trust.

None, booleans, strings, whole numbers and finite floats are themselves, a list is an array; everything
else is an object with one key that names its kind:

    {"t": i}                 tensor i of the payload        {"u": [...]}             tuple
    {"a": i}                 numpy array from tensor i      {"d": [[key, value]]}    dict, in its order
    {"f": "nan"|"inf"|"-inf"}                               {"b": base64}            bytes
    {"c": [real, imag]}      complex                        {"s": [...]}             set
    {"y": "float32"}         torch.dtype                    {"v": "cuda:0"}          torch.device
    {"z": [...]}             torch.Size              {"k": [module, name]}    a class of PLAIN_MODULES
    {"o": [how, module, name, [[key, value]]]}  an object whose class the receiver imports: `how` is
                                                "fields" (ModelOutput, dataclass), "tuple" (named tuple) or "state"
                                                (of a class of the user's own or of PLAIN_MODULES, by its
                                                attributes: nothing of the class runs)

The receiver imports a named class only if it is of the kind that `how` says, so a tree cannot call
whatever it likes.
"""

import base64
import dataclasses
import importlib
import math
import sys

from . import provenance
from .errors import not_carried

MAX_DEPTH = 64
# Their classes hold tensors and numbers and nothing else: what a generation may give beside its answer.
PLAIN_MODULES = ("transformers.cache_utils",)


def is_own(module: str) -> bool:
    """Whether a module is the function's own; a worker, which has its sources, says so otherwise."""
    return provenance.is_own(module)


def encode(value, gathering, depth=0):
    """The tree of `value`; its tensors go into `gathering`. Raises for what a tree cannot say."""
    if value is None or value is True or value is False:
        return value
    kind = type(value)
    if kind is str or kind is int:
        return value
    if kind is float:
        return value if math.isfinite(value) else {"f": repr(value)}
    torch = sys.modules["torch"]
    if isinstance(value, torch.Tensor):
        return {"t": gathering.add(value)}
    if depth > MAX_DEPTH:
        raise not_carried("an answer nested deeper than {}".format(MAX_DEPTH), "return a flatter structure.")
    depth += 1
    if kind is list:
        return [encode(item, gathering, depth) for item in value]
    if kind is tuple:
        return {"u": [encode(item, gathering, depth) for item in value]}
    if kind in (bytes, bytearray):
        return {"b": base64.b64encode(value).decode()}
    if kind is torch.Size:
        return {"z": list(value)}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return _object("tuple", kind, [(name, getattr(value, name)) for name in value._fields], gathering, depth)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        # A ModelOutput is an ordered dict that leaves its empty fields out.
        items = value.items() if isinstance(value, dict) else _fields(value)
        return _object("fields", kind, items, gathering, depth)
    if kind.__name__ in ("dict", "OrderedDict", "defaultdict") or isinstance(value, dict):
        return {"d": [[encode(key, gathering, depth), encode(item, gathering, depth)] for key, item in value.items()]}
    return _rare(value, kind, torch, gathering, depth)


def _fields(value):
    return [(field.name, getattr(value, field.name)) for field in dataclasses.fields(value) if field.init]


def _object(how, kind, items, gathering, depth):
    pairs = [[key, encode(item, gathering, depth)] for key, item in items]
    return {"o": [how, kind.__module__, kind.__qualname__, pairs]}


def _rare(value, kind, torch, gathering, depth):
    if isinstance(value, complex):
        return {"c": [encode(value.real, gathering), encode(value.imag, gathering)]}
    if isinstance(value, (set, frozenset)):
        return {"s": [encode(item, gathering, depth) for item in value]}
    if isinstance(value, torch.dtype):
        return {"y": str(value)[6:]}
    if isinstance(value, torch.device):
        return {"v": str(value)}
    if isinstance(value, bool):
        return bool(value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return encode(float(value), gathering)
    if isinstance(value, str):
        return str(value)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        if isinstance(value, numpy.ndarray):
            return {"a": gathering.add(torch.from_numpy(numpy.ascontiguousarray(value)))}
        if isinstance(value, numpy.generic):
            return encode(value.item(), gathering)
    if isinstance(value, (list, tuple)):
        return encode(list(value), gathering, depth)
    if kind.__module__ in PLAIN_MODULES or is_own(kind.__module__):
        return _object("state", kind, vars(value).items(), gathering, depth)
    if isinstance(value, type) and value.__module__ in PLAIN_MODULES:
        return {"k": [value.__module__, value.__qualname__]}
    raise not_carried(
        "an answer of type {}.{}".format(kind.__module__, kind.__qualname__),
        "let the model return tensors, numbers, strings, lists, dicts, dataclasses or model outputs.",
    )


def decode(tree, tensors):
    """The value of a tree; raises ValueError for a tree that `encode` would not write."""
    if not isinstance(tree, (dict, list)):
        return tree
    if isinstance(tree, list):
        return [decode(item, tensors) for item in tree]
    if len(tree) != 1:
        raise ValueError("an answer's node must have one key, not {}".format(sorted(tree)))
    ((kind, body),) = tree.items()
    if kind == "t":
        return tensors[body]
    if kind == "u":
        return tuple(decode(item, tensors) for item in body)
    if kind == "d":
        return {decode(key, tensors): decode(item, tensors) for key, item in body}
    if kind == "f":
        return float(body)
    if kind == "b":
        return base64.b64decode(body)
    if kind == "o":
        return _build(body, tensors)
    return _decode_rare(kind, body, tensors)


def _decode_rare(kind, body, tensors):
    torch = sys.modules["torch"]
    if kind == "a":
        return tensors[body].numpy()
    if kind == "c":
        return complex(decode(body[0], tensors), decode(body[1], tensors))
    if kind == "s":
        return {decode(item, tensors) for item in body}
    if kind == "z":
        return torch.Size(body)
    if kind == "v":
        return torch.device(body)
    if kind == "k" and body[0] in PLAIN_MODULES:
        return getattr(importlib.import_module(body[0]), body[1])
    if kind == "y" and isinstance(getattr(torch, body, None), torch.dtype):
        return getattr(torch, body)
    raise ValueError("an answer has a node of the unknown kind {!r}".format(kind))


def _build(body, tensors):
    how, module, name, pairs = body
    found = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    fields = {key: decode(item, tensors) for key, item in pairs}
    if how == "fields" and isinstance(found, type) and dataclasses.is_dataclass(found):
        return found(**fields)
    if how == "tuple" and isinstance(found, type) and issubclass(found, tuple) and hasattr(found, "_fields"):
        return found(**fields)
    if (
        how == "state"
        and (module in PLAIN_MODULES or provenance.is_own(module))
        and isinstance(found, type)
        and found.__module__ == module
    ):
        made = object.__new__(found)
        made.__dict__.update(fields)
        return made
    raise ValueError("an answer names {}.{}, which is no plain data class".format(module, name))
