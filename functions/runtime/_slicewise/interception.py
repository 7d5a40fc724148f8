"""Puts calls of a model on the way to its slice, by attributes of the instance: classes stay as they are.

What runs on the slice: the call itself, `forward`, and of every class of the module,
- written by the user: each public method, unless torch.nn.Module has one of that name, and no generator
  or coroutine;
- from an installed library: methods whose name says that they compute (COMPUTES);
- TorchScript: each exported method.
Everything else runs here, and reads weights through remote.py. Parts of a model are intercepted
likewise, so `model.encoder(x)` runs on the slice too. What is changed after registration: watching.py.
"""

import copy
import functools
import inspect
import itertools
import sys
import types

from . import calls, provenance, remote, watching

COMPUTES = (
    "compute", "decode_", "detect", "embed", "encode", "extract_", "forward_", "generate", "get_audio_features",
    "get_image_features", "get_text_features", "predict", "sample", "score", "transcribe", "translate",
)  # fmt: skip
_names = {}
_COPYING = ("__deepcopy__", "__reduce_ex__")


def install(entry, root, digest_of) -> None:
    """Intercept the root and every module below it.

    `digest_of(entry)` gives (digest, changes since the registration), and registers at the first call.
    """
    for path, module in root.named_modules():
        entry.parts[id(module)] = path
        _install_one(entry, module, path, digest_of)
    root.__dict__["__deepcopy__"] = functools.partial(_deep_copy, entry)
    root.__dict__["__reduce_ex__"] = functools.partial(_reduce, entry)


def remove(entry, root) -> None:
    """The opposite of `install`."""
    for module in root.modules():
        for name in [name for name, value in module.__dict__.items() if _intercepts(name, value)]:
            del module.__dict__[name]
    entry.parts.clear()


class Remote:
    """A bound method that runs on the slice."""

    def __init__(self, entry, path, name, digest_of) -> None:
        self._entry = entry
        self._method = "{}.{}".format(path, name) if path else name
        self._digest_of = digest_of
        self.__name__ = name

    def __call__(self, *args, **kwargs):
        digest, changes = self._digest_of(self._entry)
        return calls.infer(digest, self._method, args, kwargs, changes)

    def __deepcopy__(self, memo):
        return self  # taken out of the copy, which is nobody's model

    def __repr__(self) -> str:
        return "<{} on the slice>".format(self._method)


def _install_one(entry, module, path, digest_of) -> None:
    torch = sys.modules["torch"]
    kind = type(module)
    module.__dict__[watching.MARK] = (entry, path)
    if kind.__call__ is torch.nn.Module.__call__:
        module.__dict__["_compiled_call_impl"] = Remote(entry, path, "forward", digest_of)
    else:
        _watch_class(kind)
        module.__dict__["_slicewise_call"] = Remote(entry, path, "__call__", digest_of)
    for name in _computing(kind, module):
        module.__dict__[name] = Remote(entry, path, name, digest_of)


def _watch_class(kind) -> None:
    """A class with a `__call__` of its own: an instance that is a model has a `_slicewise_call`."""
    owner = next(base for base in kind.__mro__ if "__call__" in base.__dict__)
    original = owner.__dict__["__call__"]
    if getattr(original, "_slicewise", False):
        return

    @functools.wraps(original)
    def call(self, *args, **kwargs):
        remote = self.__dict__.get("_slicewise_call")
        return original(self, *args, **kwargs) if remote is None else remote(*args, **kwargs)

    call._slicewise = True
    owner.__call__ = call


def _computing(kind, module):
    torch = sys.modules["torch"]
    if isinstance(module, torch.jit.ScriptModule):
        return [name for name in module._c._method_names() if not name.startswith("__")]
    if kind not in _names:
        _names[kind] = _computing_of(kind, torch.nn.Module)
    return _names[kind]


def _computing_of(kind, base):
    found = ["forward"]
    for owner in kind.__mro__:
        if owner is base or owner is object:
            continue
        own = provenance.is_own(owner.__module__)
        for name, value in vars(owner).items():
            if not isinstance(value, types.FunctionType) or name in found or name.startswith("_"):
                continue
            if hasattr(base, name) or inspect.iscoroutinefunction(value) or inspect.isgeneratorfunction(value):
                continue
            if own or name.startswith(COMPUTES):
                found.append(name)
    return found


def remote_values(root):
    """{id of a remote tensor: its values}, fetched in one call a model."""
    torch = sys.modules["torch"]
    wanted = {}
    for tensor in itertools.chain(root.parameters(), root.buffers()):
        if remote.is_remote(tensor):
            wanted.setdefault(tensor._source, {})[id(tensor)] = tensor
    values = {}
    for source, tensors in wanted.items():
        fetched = iter(source([tensor._name for tensor in tensors.values()]))
        for tensor in tensors.values():
            value = next(fetched)
            parameter = isinstance(tensor, torch.nn.Parameter)
            values[id(tensor)] = torch.nn.Parameter(value, tensor.requires_grad) if parameter else value
    return values


def plain(state):
    """A module's attributes as the user made them."""
    return {name: value for name, value in state.items() if not _is_ours(name, value)}


def _is_ours(name, value) -> bool:
    return name.startswith("_slicewise") or _intercepts(name, value)


def _intercepts(name, value) -> bool:
    return (
        isinstance(value, Remote)
        or name == watching.MARK
        or (name in _COPYING and isinstance(value, functools.partial))
    )


def _plain_copy(entry, memo):
    """A deep copy of the model with its weights in this process, intercepted nowhere."""
    root = entry.module
    kind = type(root)
    memo.update(remote_values(root))
    # Values fetched under a tensor's id must not outlive it.
    memo.setdefault(id(memo), []).append(root)
    if hasattr(kind, "__deepcopy__"):
        made = kind.__deepcopy__(root, memo)
    else:
        made = kind.__new__(kind)
        memo[id(root)] = made
        state = kind.__getstate__(root) if hasattr(kind, "__getstate__") else root.__dict__
        made.__setstate__(copy.deepcopy(plain(state), memo))
    for module in made.modules():
        for name in [name for name, value in module.__dict__.items() if _is_ours(name, value)]:
            del module.__dict__[name]
    return made


def _deep_copy(entry, memo):
    return _plain_copy(entry, memo)


def _reduce(entry, protocol):
    return _plain_copy(entry, {}).__reduce_ex__(protocol)
