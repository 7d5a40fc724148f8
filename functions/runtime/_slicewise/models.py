"""Which modules are a function's models: what was moved to "cuda", seen from its root.

Moving a module there marks it; a marked module is registered when the handler's import is over or
at its first call, whichever is first, together with everything below it. From then on the root
and its parts answer calls through calls.py. Moving a registered model back to the CPU, or
converting it, fetches its weights and makes it a plain module again.
"""

import functools
import os
import sys
import threading
import weakref

from . import ambience, births, devices, interception, registering, watching
from .errors import SlicewiseError, not_carried

_lock = threading.RLock()  # a fork's own: another thread may hold it while the process forks
os.register_at_fork(after_in_child=lambda: globals().update(_lock=threading.RLock()))
_entries = {}  # id of a root module -> Entry


class Entry:
    """A root module that was moved to cuda: marked, and registered once `digest` is set."""

    def __init__(self, module) -> None:
        key = id(module)
        self.reference = weakref.ref(module, lambda _: _entries.pop(key, None))
        self.digest = None
        self.watch = None  # of a registered one
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
    births.patch(torch, mark)
    watching.patch(torch, _refuses)
    for owner, name in (
        (torch.jit, "trace"),
        (torch.jit, "trace_module"),
        (torch.jit, "script"),
        (torch.jit, "freeze"),
        (torch.jit, "optimize_for_inference"),
        (torch.export, "export"),
    ):
        setattr(owner, name, _on_plain(torch, getattr(owner, name)))
    ambience.patch(torch)
    torch.export.ExportedProgram.module = _program_noted(torch.export.ExportedProgram.module)
    _patch_backward(torch)


def _program_noted(original):
    @functools.wraps(original)
    def module(self, *args, **kwargs):
        made = original(self, *args, **kwargs)
        made.__dict__[registering.PROGRAM] = self
        return made

    return module


def _on_plain(torch, original):
    """Tracing and scripting look inside a module: they get it as it was, and what they make is a model like it."""

    @functools.wraps(original)
    def call(module, *args, **kwargs):
        entry = _entries.get(id(module)) if isinstance(module, torch.nn.Module) else None
        if entry is None:
            return original(module, *args, **kwargs)
        release(module)
        try:
            made = original(module, *args, **kwargs)
        finally:
            mark(module)
        if isinstance(made, torch.nn.Module):
            mark(made)
        return made

    return call


def _patch_backward(torch) -> None:
    """A gradient that would have to come from a slice is refused by name."""
    for owner, name in ((torch.Tensor, "backward"), (torch.autograd, "backward"), (torch.autograd, "grad")):
        setattr(owner, name, _named_backward(getattr(owner, name)))


def _named_backward(original):
    @functools.wraps(original)
    def backward(*args, **kwargs):
        try:
            return original(*args, **kwargs)
        except RuntimeError as error:
            if not _entries or "does not require grad" not in str(error):
                raise
            raise not_carried(
                "backward() through a model that runs on a slice",
                "slices run inference only; train the model before it is deployed, or take it back with .cpu() first.",
            ) from error

    return backward


def _refuses(module, hook) -> bool:
    """Whether a hook would see nothing, or what it does would be lost: it would run on the slice."""
    entry = _root_of(module)
    return entry is not None and (entry.digest is not None or registering.is_own_hook(hook))


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
        release(self)
        result = original(self, function, *args, **kwargs)
        if not _moved_to_cpu():
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
        births.claim(module, True)
        entry = _entries[id(module)] = Entry(module)
        interception.install(entry, module, called)


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
        entry.watch = None
        interception.remove(entry, module)
        if entry.digest is not None:
            registering.restore(module)
        births.claim(module, False)


def register_marked() -> None:
    """Register every model that is marked and alive."""
    with _lock:
        for root in births.roots():
            mark(root)
        for entry in list(_entries.values()):
            module = entry.module
            if module is not None and entry.digest is None:
                _register(entry, module)


def called(entry):
    """(digest, changes since its registration) of a model that is being called."""
    module = entry.module
    if module is None:
        raise SlicewiseError("not_found", "This model is gone: keep the module while its methods are called.")
    entry = _entries.get(id(module), entry)  # a method that was kept may know the one before
    if entry.digest is None:
        with _lock:
            if entry.digest is None:
                _register(entry, module)
    try:
        return entry.digest, entry.watch.changes()
    except watching.Stale:
        return _anew(entry, module)


def _anew(entry, module):
    """Register a model that has been rebuilt since."""
    with _lock:
        if _entries.get(id(module)) is entry:
            release(module)
            mark(module)
            _register(_entries[id(module)], module)
        entry = _entries[id(module)]
        return entry.digest, entry.watch.changes()


def _register(entry, module) -> None:
    for child in module.modules():
        if child is not module and id(child) in _entries:
            release(child)
    # Again, for parts that came after the module was moved; calls meanwhile wait for the lock.
    interception.install(entry, module, called)
    found, names, values = registering.register(module)
    script = isinstance(module, sys.modules["torch"].jit.ScriptModule)
    entry.watch = watching.Watch(module, () if script else list(module.named_modules()), names, values)
    entry.digest = found
