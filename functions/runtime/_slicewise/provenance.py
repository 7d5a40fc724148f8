"""Where a module's code comes from: the user's own files, an installed distribution, or Python itself."""

import os
import sys
import sysconfig

_own = {}
_INSTALLED = (os.sep + "site-packages" + os.sep, os.sep + "dist-packages" + os.sep)


def _standard_folders():
    return [
        os.path.realpath(sysconfig.get_path(name)) + os.sep
        for name in ("stdlib", "platstdlib")
        if sysconfig.get_path(name)
    ]


def is_own(name: str) -> bool:
    """Whether the module `name` is source of the function itself."""
    if name not in _own:
        _own[name] = source_path(name) is not None
    return _own[name]


def source_path(name: str):
    """The path of an own module's source file, None for installed and built-in modules."""
    module = sys.modules.get(name)
    path = getattr(module, "__file__", None)
    if not path or not path.endswith(".py"):
        return None
    path = os.path.realpath(path)
    here = os.path.dirname(os.path.abspath(__file__)) + os.sep
    if any(part in path for part in _INSTALLED) or path.startswith(os.path.realpath(here)):
        return None
    if any(path.startswith(folder) for folder in _standard_folders()):
        return None
    return path


def distributions(modules):
    """Sorted [name, version] of the distributions that the installed ones of these modules belong to."""
    from importlib import metadata

    found = {}
    unknown = set()
    for top in {name.partition(".")[0] for name in modules}:
        if is_own(top) or top in sys.builtin_module_names or top in getattr(sys, "stdlib_module_names", ()):
            continue
        try:
            distribution = metadata.distribution(top)
            found[distribution.metadata["Name"]] = distribution.version
        except metadata.PackageNotFoundError:
            unknown.add(top)
    if unknown:
        for distribution in metadata.distributions():
            tops = (distribution.read_text("top_level.txt") or "").split()
            if unknown.intersection(tops):
                found[distribution.metadata["Name"]] = distribution.version
    return sorted([name, version] for name, version in found.items())
