"""Modules whose weights came into being on "cuda": made there, loaded there, or put there one by one.

Nobody moves such a module, so no `.to("cuda")` is seen. Tensors that were asked for on cuda carry a mark, a
parameter keeps the mark of what it was made of, and a module that gets such a parameter is noted. Its root
becomes a model when the handler's import is over, if one of the handler's names leads to it, or when it is called.
"""

import functools
import sys

from . import provenance

ASKED = "_slicewise_cuda"  # on a tensor
BORN = "_slicewise_born"  # on a module
LOCAL = "_slicewise_local"  # on a module that was looked at and is none

_any = []  # not empty once a module was born on cuda


def mark(value):
    """Note that a tensor was asked for on cuda; of a container, those in it. Gives `value`."""
    torch = sys.modules["torch"]
    if isinstance(value, torch.Tensor):
        value.__dict__[ASKED] = True
    elif isinstance(value, dict):
        for item in value.values():
            mark(item)
    elif isinstance(value, torch.nn.Module):
        for module in value.modules():
            _bear(module)
    elif isinstance(value, (list, tuple)):
        for item in value:
            mark(item)
    return value


def _bear(module) -> None:
    module.__dict__[BORN] = True
    module.__dict__.pop(LOCAL, None)
    if not _any:
        _any.append(True)


def is_born(root) -> bool:
    """Whether this module or one below it was born on cuda."""
    return any(BORN in module.__dict__ for module in root.modules())


def patch(torch, become_model) -> None:
    """Watch parameters and calls; `become_model(module)` is told of a root that is called for the first time."""
    make = torch.nn.Parameter.__new__

    @functools.wraps(make)
    def new(cls, data=None, requires_grad=True):
        made = make(cls, data, requires_grad)
        if data is not None and ASKED in getattr(data, "__dict__", ()):
            made.__dict__[ASKED] = True
        return made

    torch.nn.Parameter.__new__ = staticmethod(new)
    _name_device(torch)
    register = torch.nn.Module.register_parameter

    @functools.wraps(register)
    def register_parameter(self, name, param):
        register(self, name, param)
        if param is not None and ASKED in param.__dict__:
            _bear(self)

    torch.nn.Module.register_parameter = register_parameter
    original = torch.nn.Module.__call__

    @functools.wraps(original)
    def call(self, *args, **kwargs):
        if _any and _is_new_root(self) and not _is_layer_being_built(self, args):
            become_model(self)
        return original(self, *args, **kwargs)

    torch.nn.Module.__call__ = call


def _name_device(torch) -> None:
    """A parameter that was asked for on cuda says so, before its model is registered as after."""
    real = torch.Tensor.device
    cuda = torch.device("cuda", 0)

    def device(self):
        return cuda if ASKED in self.__dict__ else real.__get__(self)

    torch.nn.Parameter.device = property(device, doc=real.__doc__)
    torch.nn.Parameter.is_cuda = property(lambda self: self.device.type == "cuda")


def claim(module, wanted) -> None:
    """Let a module's parameters say that they are on cuda, or not any more."""
    for parameter in module.parameters():
        if wanted:
            parameter.__dict__[ASKED] = True
        else:
            parameter.__dict__.pop(ASKED, None)


def _is_new_root(module) -> bool:
    state = module.__dict__
    if "_slicewise_part" in state or LOCAL in state:
        return False
    if is_born(module):
        return True
    state[LOCAL] = True
    return False


def _is_layer_being_built(module, args) -> bool:
    """Keras calls layers and models with symbols while a model is put together; and only a Model is one."""
    base = getattr(sys.modules.get("keras"), "Model", None)
    layer = getattr(sys.modules.get("keras"), "Layer", None)
    if base is None or not isinstance(module, layer):
        return False
    return not isinstance(module, base) or any(type(value).__name__ == "KerasTensor" for value in args)


def roots():
    """Modules born on cuda that the handler's own modules name, by themselves or in a list, a dict or an object."""
    if not _any:
        return []
    torch = sys.modules["torch"]
    found = {}
    for name, module in list(sys.modules.items()):
        if not provenance.is_own(name):
            continue
        for value in list(getattr(module, "__dict__", {}).values()):
            for item in _within(value):
                if isinstance(item, torch.nn.Module) and is_born(item) and not _is_layer_being_built(item, ()):
                    found[id(item)] = item
    below = {id(part) for root in found.values() for part in root.modules() if part is not root}
    return [root for key, root in found.items() if key not in below]


def _within(value):
    if isinstance(value, dict):
        return list(value.values())
    if isinstance(value, (list, tuple)):
        return list(value)
    attributes = getattr(value, "__dict__", None)
    if isinstance(attributes, dict) and provenance.is_own(type(value).__module__):
        return [value, *attributes.values()]
    return [value]
