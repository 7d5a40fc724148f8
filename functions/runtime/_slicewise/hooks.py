"""Runs a function of ours right after a module of somebody else was imported, or at once if it was before."""

import importlib.util
import sys

from . import context, servers

NOT_TENSORFLOW = (
    "This function imports tensorflow, which Slicewise does not interpose: what it computes runs in the function's "
    "own process. Slicewise interposes torch; run Keras 3 on its torch backend: KERAS_BACKEND=torch."
)

_installed = False


def _torch(module) -> None:
    from . import devices, models

    devices.patch(module)
    models.patch(module)


def _tensorflow(module) -> None:
    sys.stderr.write(NOT_TENSORFLOW + "\n")
    sys.stderr.flush()
    from . import channel

    channel.note(NOT_TENSORFLOW)


def _extensions(module) -> None:
    """What compiles kernels for a GPU that this process does not have."""
    from .errors import not_carried

    def refused(original, name):
        def build(*args, **kwargs):
            sources = [*(kwargs.get("sources") or ()), *(args[1] if len(args) > 1 else ())]
            if kwargs.get("cuda_sources") or any(str(source).endswith((".cu", ".cuh")) for source in sources):
                raise not_carried(
                    "torch.utils.cpp_extension.{}() of CUDA sources".format(name),
                    "slices run models of torch's own operations; write the kernel as torch code.",
                )
            return original(*args, **kwargs)

        return build

    for name in ("load", "load_inline"):
        setattr(module, name, refused(getattr(module, name), name))


_NEEDED = {"torch": _torch, "tensorflow": _tensorflow, "torch.utils.cpp_extension": _extensions}
# What these look for inside a server may have another name in its next version. The import goes on all
# the same, and the calls that it serves bind late.
_OPTIONAL = {
    "concurrent.futures.thread": context.follow_thread_pools,
    "concurrent.futures.process": context.follow_process_pools,
    "multiprocessing.pool": context.follow_pools,
    "flask.app": servers.flask,
    "starlette.applications": servers.starlette,
    "gunicorn.http.wsgi": servers.gunicorn,
    "gunicorn.workers.gasgi": servers.gunicorn_asgi,
    "uvicorn.config": servers.uvicorn,
    "hypercorn.app_wrappers": servers.hypercorn,
    "waitress.task": servers.waitress,
    "http.server": servers.http_server,
    "aiohttp.web_app": servers.aiohttp,
}


def _after(name, module) -> None:
    if name in _NEEDED:
        _NEEDED[name](module)
        return
    try:
        _OPTIONAL[name](module)
    except AttributeError as error:
        text = "Slicewise does not know this version of {} ({}); model calls of its requests bind late.\n"
        sys.stderr.write(text.format(name, error))


class _Finder:
    """First on sys.meta_path: lets the others find, and wraps the loader of what we wait for."""

    def __init__(self) -> None:
        self._looking = set()

    def find_spec(self, fullname, path=None, target=None):
        if (fullname not in _NEEDED and fullname not in _OPTIONAL) or fullname in self._looking:
            return None
        self._looking.add(fullname)
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            self._looking.discard(fullname)
        if spec is None or spec.loader is None or not hasattr(spec.loader, "exec_module"):
            return None
        spec.loader = _Loader(spec.loader, fullname)
        return spec


class _Loader:
    """Another loader that calls what belongs to the module once it has run."""

    def __init__(self, loader, name) -> None:
        self._loader = loader
        self._name = name

    def __getattr__(self, name):
        return getattr(self._loader, name)

    def create_module(self, spec):
        return self._loader.create_module(spec)

    def exec_module(self, module):
        # From here on the module looks as if it had been loaded without us.
        module.__spec__.loader = module.__loader__ = self._loader
        self._loader.exec_module(module)
        _after(self._name, module)
        if self._name in _GREETED_AFTER:
            _greet()


# A process that imports one of these is the function's own, not a tool that it runs. `torch` comes late in
# some; a server that imports it with its first request is heard of before.
_GREETED_AFTER = {*_NEEDED, *(name for name in _OPTIONAL if not name.startswith(("concurrent", "multiprocessing")))}


def _greet() -> None:
    """Say hello, so that the broker knows this process is interposed; who cannot hear it is told at the first call."""
    from . import channel

    try:
        channel.greet()
    except Exception:  # the import under way is the user's, and must not fail by us
        return


def install() -> None:
    """Install the hooks once a process."""
    global _installed
    if _installed:
        return
    _installed = True
    context.follow_threads()
    sys.meta_path.insert(0, _Finder())
    for name in (*_NEEDED, *_OPTIONAL):
        if name in sys.modules:
            _after(name, sys.modules[name])
