"""Runs a function of ours right after a module of somebody else was imported, or at once if it was before."""

import importlib.util
import sys

from . import context

_installed = False


def _torch(module) -> None:
    from . import devices, models

    devices.patch(module)
    models.patch(module)


_AFTER = {
    "torch": _torch,
    "concurrent.futures.thread": context.follow_pools,
    "flask.app": context.read_wsgi,
    "starlette.applications": context.read_asgi,
}


class _Finder:
    """First on sys.meta_path: lets the others find, and wraps the loader of what we wait for."""

    def __init__(self) -> None:
        self._looking = set()

    def find_spec(self, fullname, path=None, target=None):
        if fullname not in _AFTER or fullname in self._looking:
            return None
        self._looking.add(fullname)
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            self._looking.discard(fullname)
        if spec is None or spec.loader is None or not hasattr(spec.loader, "exec_module"):
            return None
        spec.loader = _Loader(spec.loader, _AFTER[fullname])
        return spec


class _Loader:
    """Another loader that calls `after(module)` once the module has run."""

    def __init__(self, loader, after) -> None:
        self._loader = loader
        self._after = after

    def __getattr__(self, name):
        return getattr(self._loader, name)

    def create_module(self, spec):
        return self._loader.create_module(spec)

    def exec_module(self, module):
        # From here on the module looks as if it had been loaded without us.
        module.__spec__.loader = module.__loader__ = self._loader
        self._loader.exec_module(module)
        self._after(module)


def install() -> None:
    """Install the hooks once a process."""
    global _installed
    if _installed:
        return
    _installed = True
    context.follow_threads()
    sys.meta_path.insert(0, _Finder())
    for name, after in _AFTER.items():
        if name in sys.modules:
            after(sys.modules[name])
