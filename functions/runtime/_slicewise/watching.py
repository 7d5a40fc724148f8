"""What a handler does to a model after its registration: seen at the next call, and carried with it.

An attribute that is set on the model or a part of it, and what is changed inside a container or a
plain object that it holds (`model.config.top_k = 5`), are sent along with the calls of this process;
the worker makes the same changes, and undoes them when the invocation is over. So are plain values of
the user's own modules that the model's code reads (`THRESHOLD = 0.3`). What changes the model's build (another
submodule, another parameter, much data) makes it a new model, registered anew at its next call. Hooks are refused.

Seeing costs one comparison a container: attributes are seen as they are set.
"""

import functools
import hashlib
import io
import os
import pickle
import sys
import types
from collections import deque

from . import byvalue, provenance
from .errors import not_carried

MARK = "_slicewise_part"
MAX_CELLS = 5000
MAX_ITEMS = 1000  # of a container whose items are compared; of a larger one only their number is
MAX_CARRIED_BYTES = 1 << 20  # more data than this is not sent with each call, but registered
HOOKS = ("register_forward_hook", "register_forward_pre_hook", "register_backward_hook", "register_full_backward_hook",
         "register_full_backward_pre_hook")  # fmt: skip
BUILDING = ("register_parameter", "add_module", "register_module")
_LEAVES = (int, float, complex, bool, str, bytes, type(None), type, types.FunctionType, types.BuiltinFunctionType,
           types.MethodType, types.ModuleType)  # fmt: skip
_process = os.urandom(8).hex()


class Stale(Exception):
    """The model is not what was registered, and has to be registered anew."""


class Watch:
    """The changes of one registered model since its registration. `names`: what its sources define, (module, name)."""

    def __init__(self, root, parts, names, values) -> None:
        torch = sys.modules["torch"]
        self._root = root
        self._names = frozenset(names)
        self._own = set(torch.nn.Module().__dict__)
        self._modes = None  # (mode of the root, parts that differ), once somebody has changed one
        self._touched = {}  # (path, name) -> the module; in the order of their first change
        self._stale = ""
        self._values = [(module, name, _copy(value)) for module, name, value in values]
        self._carried = {}  # position in _cells and _values -> keys that were sent once
        self._cells = []
        self._collect(parts)

    def set(self, module, path, name, value) -> None:
        """An attribute is about to be set."""
        torch = sys.modules["torch"]
        if name == "training":
            self._modes = ()
        elif isinstance(getattr(type(module), name, None), property):
            pass  # its setter sets what it keeps
        elif isinstance(value, (torch.nn.Module, torch.nn.Parameter)) or self._builds(module, name):
            self.build("{}.{}".format(path, name) if path else name)
        else:
            self._touched[path, name] = module

    def delete(self, module, path, name) -> None:
        """An attribute is about to be deleted."""
        if self._builds(module, name):
            self.build(name)
        else:
            self._touched[path, name] = module

    def build(self, name) -> None:
        """The model is built otherwise than it was registered."""
        self._stale = self._stale or name

    def _builds(self, module, name):
        return name in module.__dict__.get("_parameters", ()) or name in module.__dict__.get("_modules", ())

    def _collect(self, parts) -> None:
        """Remember every container that is reachable from attributes, and how it was."""
        torch = sys.modules["torch"]
        seen = set()
        pending = deque()
        for path, module in parts:
            for name, value in module.__dict__.items():
                if name not in self._own and not name.startswith("_slicewise"):
                    pending.append((value, path, (("a", name),)))
        while pending and len(self._cells) < MAX_CELLS:
            value, path, steps = pending.popleft()
            if isinstance(value, _LEAVES) or id(value) in seen or isinstance(value, (torch.Tensor, torch.nn.Module)):
                continue
            seen.add(id(value))
            if isinstance(value, dict):
                self._cells.append((value, _copy(value), path, steps, "d"))
                if len(value) <= MAX_ITEMS:
                    pending.extend((item, path, (*steps, ("i", key))) for key, item in value.items())
            elif isinstance(value, (list, deque)):
                self._cells.append((value, _copy(value), path, steps, "l"))
                if len(value) <= MAX_ITEMS:
                    pending.extend((item, path, (*steps, ("i", index))) for index, item in enumerate(value))
            elif isinstance(value, set):
                self._cells.append((value, _copy(value), path, steps, "s"))
            elif isinstance(value, tuple):
                pending.extend((item, path, (*steps, ("i", index))) for index, item in enumerate(value))
            attributes = getattr(value, "__dict__", None)
            if isinstance(attributes, dict) and type(value).__name__ != "Remote":
                self._cells.append((attributes, _copy(attributes), path, steps, "o"))
                pending.extend((item, path, (*steps, ("a", name))) for name, item in attributes.items())

    def changes(self):
        """{"modes": ..., "version": ..., "records": ...} for the worker, without what is not needed.

        Raises Stale, or SlicewiseError for what no worker can be told.
        """
        if self._stale:
            raise Stale(self._stale)
        said = {}
        if self._modes is not None:
            said["modes"] = self._current_modes()
        records = self._records()
        if records:
            said["version"] = self._version(records)
            said["records"] = records
        return said

    def _current_modes(self):
        if not self._modes:
            mode = bool(self._root.training)
            others = [path for path, part in self._root.named_modules() if bool(part.training) != mode]
            self._modes = (mode, others)
        return list(self._modes)

    def _records(self):
        records = []
        for position, (container, copy, path, steps, kind) in enumerate(self._cells):
            if position in self._carried or _differs(container, copy):
                sent = self._carried.setdefault(position, set())
                records.append(_cell_record(container, copy, path, steps, kind, sent))
        for (path, name), module in self._touched.items():
            state = module.__dict__
            buffers = state.get("_buffers", {})
            if name in state or name in buffers:
                records.append(["set", path, name, state[name] if name in state else buffers[name]])
            else:
                records.append(["delete", path, name])
        for position, (module, name, copy) in enumerate(self._values, len(self._cells)):
            value = getattr(sys.modules.get(module), name, None)
            if position in self._carried or _differs(value, copy):
                self._carried[position] = ()
                records.append(["value", module, name, value])
        return records

    def _version(self, records) -> str:
        """A name for these changes: the same as long as nothing differs."""
        file = io.BytesIO()
        pickler = _Fingerprint(file)
        try:
            pickler.dump(records)
        except Exception as error:
            raise not_carried(
                "{} ({})".format(_culprit(records), error),
                "set attributes to numbers, strings, tensors and containers of them, or set it before the model's"
                " first call.",
            ) from error
        if pickler.tensor_bytes > MAX_CARRIED_BYTES or file.tell() > MAX_CARRIED_BYTES:
            raise Stale("its attributes")
        for pair in pickler.names:
            if provenance.is_own(pair[0]) and pair not in self._names:
                raise Stale(pair[1])
        return "{}-{}".format(_process, hashlib.blake2b(file.getvalue(), digest_size=16).hexdigest())


class _Fingerprint(pickle.Pickler):
    """Tells two states of the same objects apart; tensors by identity and version."""

    def __init__(self, file) -> None:
        super().__init__(file, protocol=4)
        self._torch = sys.modules["torch"]
        self.names = set()
        self.tensor_bytes = 0

    def persistent_id(self, obj):
        if isinstance(obj, self._torch.Tensor):
            self.tensor_bytes += obj.numel() * obj.element_size()
            return (id(obj), getattr(obj, "_version", 0))
        return None

    def reducer_override(self, obj):
        return byvalue.named_or_reduced(obj, self.names)


def _culprit(records) -> str:
    for record in records:
        try:
            _Fingerprint(io.BytesIO()).dump(record[-1])
        except Exception:
            if record[0] == "set":
                return "attribute {!r} of a model".format(".".join(filter(None, record[1:3])))
    return "what was changed on a model"


def _copy(value):
    if isinstance(value, (dict, list, set, deque)):
        return value.copy() if len(value) <= MAX_ITEMS else len(value)
    return value


def _differs(value, copy) -> bool:
    if isinstance(value, (dict, list, set, deque)) and isinstance(copy, int) and not isinstance(copy, bool):
        return len(value) != copy
    try:
        return value is not copy and (type(value) is not type(copy) or bool(value != copy))
    except Exception:  # two tensors or arrays that are not the same object
        return True


def _cell_record(container, copy, path, steps, kind, sent):
    """`sent`: the keys that were sent before; what is as it was again has to be said, too."""
    if kind in "do" and isinstance(copy, dict):
        sent.update(key for key, value in container.items() if key not in copy or _differs(value, copy[key]))
        sent.update(key for key in copy if key not in container)
        changed = {key: container[key] for key in container if key in sent}
        return ["update", path, list(steps), kind, changed, [key for key in sent if key not in container]]
    return ["fill", path, list(steps), kind, dict(container) if kind in "do" else list(container)]


def patch(torch, refused) -> None:
    """Watch attributes being set and modules being built; `refused(module, hook)` says whether a hook is."""
    base = torch.nn.Module
    base.__setattr__ = _watched(base.__setattr__, Watch.set)
    base.__delattr__ = _watched(base.__delattr__, Watch.delete)
    base.register_buffer = _watched(base.register_buffer, Watch.set)
    for name in BUILDING:
        if name in base.__dict__:
            setattr(base, name, _watched(getattr(base, name), _builds))
    for name in HOOKS:
        setattr(base, name, _hooked(name, getattr(base, name), refused))
    script = getattr(torch.jit, "RecursiveScriptModule", None)
    if script is not None and "__setattr__" in script.__dict__:
        script.__setattr__ = _watched(script.__setattr__, _script_set)


def _builds(watch, module, path, name, *value) -> None:
    watch.build(name)


def _script_set(watch, module, path, name, value) -> None:
    watch.set(module, path, name, value) if name == "training" else watch.build(name)


def _watched(original, note):
    @functools.wraps(original)
    def call(self, name, *args, **kwargs):
        part = self.__dict__.get(MARK)
        if part is not None and part[0].watch is not None and isinstance(name, str):
            value = args[:1] or (next(iter(kwargs.values()), None),)
            note(part[0].watch, self, part[1], name, *(() if note is Watch.delete else value))
        return original(self, name, *args, **kwargs)

    return call


def _hooked(name, original, refused):
    @functools.wraps(original)
    def register(self, *args, **kwargs):
        if refused(self, args[0] if args else kwargs.get("hook")):
            raise not_carried(
                "{}() on a model that runs on a slice".format(name),
                "return what the hook would see from forward() instead, or take the model back with .cpu() first.",
            )
        return original(self, *args, **kwargs)

    return register
