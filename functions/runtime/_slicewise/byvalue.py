"""Functions and classes that no name leads to, carried by what they are: lambdas, and what a function defines.

A function goes as its code, with the globals that it reads, its defaults and its closure; a class as its bases and
attributes. Reader and writer run the same Python minor, which a model's registration says. A module
whose class torch makes on the fly (torch.nn.utils.parametrize) is built again from the class that it was made of.
"""

import builtins
import hashlib
import importlib
import marshal
import sys
import types

_NOT_CARRIED = ("__dict__", "__weakref__", "__module__", "__doc__", "__qualname__", "__firstlineno__",
                "__static_attributes__", "__annotate_func__", "__annotations_cache__")  # fmt: skip


def is_nameless(value) -> bool:
    """Whether a function or class cannot be found by its module and name."""
    if not isinstance(value, (type, types.FunctionType)):
        return False
    found = sys.modules.get(value.__module__ or "")
    for part in value.__qualname__.split("."):
        found = getattr(found, part, None)
        if found is None:
            return True
    return found is not value  # a decorator has put something else in its place


def named_or_reduced(value, names):
    """For a pickler's `reducer_override`: what has a name is noted in `names` and goes by it, other code by value.

    NotImplemented leaves it to pickle. A module goes by its name, too, which stands in `names` with "" for its content.
    """
    if isinstance(value, types.ModuleType):
        names.add((value.__name__, ""))
        return (importlib.import_module, (value.__name__,))
    if isinstance(value, (type, types.FunctionType)):
        if is_nameless(value):
            return reduce(value)
        names.add((value.__module__, value.__qualname__))
    return NotImplemented


def reduce(value):
    """What pickle needs to build it again: (builder, arguments, state, None, None, setter)."""
    if isinstance(value, types.FunctionType):
        return _reduce_function(value)
    return _reduce_class(value)


def _reduce_function(function):
    code = function.__code__
    cells = len(function.__closure__ or ())
    made_of = (marshal.dumps(code), function.__module__, function.__name__, function.__qualname__, cells)
    state = {
        "globals": {name: function.__globals__[name] for name in names_of(code) if name in function.__globals__},
        "closure": [_content(cell) for cell in function.__closure__ or ()],
        "defaults": function.__defaults__,
        "kwdefaults": function.__kwdefaults__,
        "attributes": dict(function.__dict__),
    }
    return (_empty_function, made_of, state, None, None, _fill_function)


def _content(cell):
    try:
        return [cell.cell_contents]
    except ValueError:  # not bound yet
        return []


def names_of(code):
    """Sorted names of globals and attributes that a code object and those inside it use."""
    found = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            found.update(names_of(constant))
    return sorted(found)


def _empty_function(code, module, name, qualname, cells):
    closure = tuple(types.CellType() for _ in range(cells))
    function = types.FunctionType(
        marshal.loads(code),
        {"__name__": module, "__builtins__": builtins},
        name,
        None,
        closure or None,
    )
    function.__qualname__, function.__module__ = qualname, module
    return function


def _fill_function(function, state) -> None:
    function.__globals__.update(state["globals"])
    for index, cell in enumerate(function.__closure__ or ()):
        if state["closure"][index]:
            cell.cell_contents = state["closure"][index][0]
    function.__defaults__, function.__kwdefaults__ = state["defaults"], state["kwdefaults"]
    function.__dict__.update(state["attributes"])


def _reduce_class(kind):
    attributes = {name: value for name, value in vars(kind).items() if name not in _NOT_CARRIED}
    return (
        _empty_class,
        (type(kind), kind.__name__, kind.__qualname__, kind.__module__, kind.__bases__),
        attributes,
        None,
        None,
        _fill_class,
    )


def _empty_class(meta, name, qualname, module, bases):
    return meta(name, bases, {"__module__": module, "__qualname__": qualname})


def _fill_class(kind, attributes) -> None:
    for name, value in attributes.items():
        setattr(kind, name, value)


def canonical(function):
    """[hash of the code, names, closure contents, defaults] of a function, for a digest."""
    code = function.__code__
    text = hashlib.sha256()
    _hash_code(code, text)
    return [text.hexdigest(), [_content(cell) for cell in function.__closure__ or ()], function.__defaults__]


def _hash_code(code, text) -> None:
    text.update(code.co_code)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            _hash_code(constant, text)
        else:
            text.update(repr(sorted(constant, key=repr) if isinstance(constant, frozenset) else constant).encode())
    text.update(repr(code.co_names).encode())


def reduce_parametrized(module, state):
    """As a module whose class torch.nn.utils.parametrize made: its own class, and which of its tensors are computed."""
    kind = type(module)
    return (_parametrized, (kind.__bases__[0], sorted(module.parametrizations)), state, None, None, _fill_parametrized)


def is_parametrized(module) -> bool:
    """Whether torch has put a class of its own in the place of the module's."""
    parametrize = sys.modules.get("torch.nn.utils.parametrize")
    return parametrize is not None and parametrize.is_parametrized(module)


def _parametrized(kind, names):
    made = kind.__new__(kind)
    made.__dict__["_slicewise_names"] = names
    return made


def _fill_parametrized(module, state) -> None:
    from torch.nn.utils import parametrize

    names = module.__dict__.pop("_slicewise_names")
    module.__dict__.update(state)
    parametrize._inject_new_class(module)
    for name in names:
        parametrize._inject_property(module, name)
