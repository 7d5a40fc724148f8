"""Which modules are a function's models: what was moved to "cuda", seen from its root.

Moving a module there marks it; a marked module is registered when the handler's import is over or
at its first call, whichever is first, together with everything below it. From then on the root
and its parts answer calls through calls.py. Moving a registered model back to the CPU, or
converting it, fetches its weights and makes it a plain module again.
"""

import functools
import sys
import threading
import weakref

from . import devices, interception, registering
from .errors import SlicewiseError

_lock = threading.RLock()
_entries = {}  # id of a root module -> Entry


class Entry:
    """A root module that was moved to cuda: marked, and registered once `digest` is set."""

    def __init__(self, module) -> None:
        key = id(module)
        self.reference = weakref.ref(module, lambda _: _entries.pop(key, None))
        self.digest = None
        self.parts = {}  # id -> path, of the modules that are intercepted

    @property
    def module(self):
        """The root, None once nobody holds it any more."""
        return self.reference()


def patch(torch) -> None:
    """Watch modules being moved. devices.patch comes first."""
    module = torch.nn.Module
    module.to = _to(torch, module.to)
    module.cuda = _cuda(torch, module.cuda)
    module._apply = _apply(module._apply)
    module.load_state_dict = _unregistered_first(module.load_state_dict)
    module.compile = lambda self, *args, **kwargs: None
    torch.jit.load = _jit_load(torch, torch.jit.load)


def _to(torch, original):
    @functools.wraps(original)
    def to(self, *args, **kwargs):
        target = torch._C._nn._parse_to(*_spelled(args, torch), **kwargs)
        device, dtype, non_blocking, memory_format = target
        if device is None or device.type != "cuda":
            return original(self, *args, **kwargs)
        if dtype is not None or memory_format is not None:
            kept = {"memory_format": memory_format} if memory_format is not None else {}
            original(self, dtype, non_blocking, **kept) if dtype is not None else original(self, **kept)
        mark(self)
        return self

    return to


def _spelled(args, torch):
    """`.to(0)` means cuda:0; `_parse_to` wants it said."""
    if args and isinstance(args[0], int) and not isinstance(args[0], bool):
        return (torch.device("cuda", args[0]), *args[1:])
    return args


def _cuda(torch, original):
    @functools.wraps(original)
    def cuda(self, device=None):
        mark(self)
        return self

    return cuda


def _apply(original):
    """`.cpu()`, `.half()` and their kin on a registered model act on its real weights."""

    @functools.wraps(original)
    def apply(self, function, *args, **kwargs):
        entry = _entries.get(id(self))
        if entry is None:
            return original(self, function, *args, **kwargs)
        was_registered = entry.digest is not None
        release(self)
        result = original(self, function, *args, **kwargs)
        if not (was_registered and _moved_to_cpu()):
            mark(self)
        return result

    return apply


def _moved_to_cpu() -> bool:
    """Whether the conversion under way is `.cpu()` or `.to("cpu")`, which ends a model's life on a slice."""
    frame = sys._getframe(2)
    if frame.f_code.co_name == "cpu":
        return True
    device = frame.f_locals.get("device")
    return frame.f_code.co_name == "to" and getattr(device, "type", None) == "cpu"


def _unregistered_first(original):
    @functools.wraps(original)
    def load_state_dict(self, *args, **kwargs):
        entry = _entries.get(id(self))
        if entry is not None and entry.digest is not None:
            release(self)
            result = original(self, *args, **kwargs)
            mark(self)
            return result
        return original(self, *args, **kwargs)

    return load_state_dict


def _jit_load(torch, original):
    mapped = devices._mapped_load(torch, original)

    @functools.wraps(original)
    def load(f, map_location=None, *args, **kwargs):
        module = mapped(f, map_location, *args, **kwargs)
        if map_location is not None and devices.is_cuda(map_location, torch):
            mark(module)
        return module

    return load


def mark(module) -> None:
    """This module is a model from now on; marked modules below it belong to it."""
    with _lock:
        if _root_of(module) is not None:
            return
        for child in module.modules():
            below = _entries.get(id(child))
            if below is not None:
                release(child)
        entry = _entries[id(module)] = Entry(module)
        interception.install(entry, module, first_call)


def _root_of(module):
    """The entry whose tree holds this module; its own included."""
    entry = _entries.get(id(module))
    if entry is not None:
        return entry
    for entry in list(_entries.values()):
        if id(module) in entry.parts and entry.module is not None:
            return entry
    return None


def release(module) -> None:
    """Make a model a plain module again, with its weights in this process."""
    with _lock:
        entry = _entries.pop(id(module), None)
        if entry is None:
            return
        interception.remove(entry, module)
        if entry.digest is not None:
            registering.restore(module)


def register_marked() -> None:
    """Register every model that is marked and alive."""
    with _lock:
        for entry in list(_entries.values()):
            module = entry.module
            if module is not None and entry.digest is None:
                _register(entry, module)


def first_call(entry) -> str:
    """The digest of a model that is being called."""
    if entry.digest is None:
        with _lock:
            module = entry.module
            if module is None:
                raise SlicewiseError("not_found", "This model is gone: keep the module while its methods are called.")
            if entry.digest is None:
                _register(entry, module)
    return entry.digest


def _register(entry, module) -> None:
    for child in module.modules():
        if child is not module and id(child) in _entries:
            release(child)
    # Again, for parts that came after the module was moved; calls meanwhile wait for the lock.
    interception.install(entry, module, first_call)
    entry.digest = registering.register(module)
