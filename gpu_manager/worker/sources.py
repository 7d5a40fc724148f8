"""The user's own modules, imported from the zip of sources that came in the package.

They live in memory: the worker needs no writable path, and two models of a function share them.
Modules that the package does not carry are imported as usual.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import io
import sys
import zipfile
from types import CodeType, ModuleType
from typing import Any

# The module that was `__main__` in the user's process; `__main__` here is the zygote.
MAIN = "__slicewise_main__"


class _Sources(importlib.abc.MetaPathFinder, importlib.abc.InspectLoader):
    """Finder and loader over {path in the zip: text}."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}

    def _path(self, name: str) -> str | None:
        base = name.replace(".", "/")
        return next((p for p in (f"{base}/__init__.py", f"{base}.py") if p in self.files), None)

    def find_spec(self, fullname: str, path: Any, target: ModuleType | None = None) -> Any:
        found = self._path(fullname)
        if found is None:
            return None
        spec = importlib.util.spec_from_loader(fullname, self, origin=found, is_package=self.is_package(fullname))
        return spec

    def is_package(self, fullname: str) -> bool:
        return (self._path(fullname) or "").endswith("/__init__.py")

    def get_source(self, fullname: str) -> str:
        path = self._path(fullname)
        if path is None:
            raise ImportError(f"no source of {fullname} came with the package", name=fullname)
        return importlib.util.decode_source(self.files[path])

    def get_code(self, fullname: str) -> CodeType:
        # Tracebacks name the file as the user knows it.
        return self.source_to_code(self.get_source(fullname), self._path(fullname) or fullname)

    def get_filename(self, fullname: str) -> str:
        return self._path(fullname) or fullname


_finder = _Sources()


def add(archive: bytes) -> None:
    """Make the modules of a zip of sources importable."""
    with zipfile.ZipFile(io.BytesIO(archive)) as opened:
        for name in opened.namelist():
            _finder.files[name] = opened.read(name)
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)
