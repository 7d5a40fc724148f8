"""The user's own modules, imported from the zip of sources that came in the package.

They live in memory: the worker needs no writable path, and two models of a function share them.
Modules that the package does not carry are imported as usual.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import io
import sys
import zipfile
from itertools import zip_longest
from types import CodeType, ModuleType
from typing import Any

# The module that was `__main__` in the user's process; `__main__` here is the zygote.
MAIN = "__slicewise_main__"
# A model's own modules, unpacked; a few hundred kilobytes of zip can claim gigabytes.
MAX_BYTES = 64 << 20


class _Sources(importlib.abc.MetaPathFinder, importlib.abc.InspectLoader):
    """Finder and loader over {path in the zip: text}."""

    def __init__(self) -> None:
        self.files: dict[str, str] = {}

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
        return self.files[path]

    def get_code(self, fullname: str) -> CodeType:
        # Tracebacks name the file as the user knows it.
        return self.source_to_code(self.get_source(fullname), self._path(fullname) or fullname)

    def get_filename(self, fullname: str) -> str:
        return self._path(fullname) or fullname


_finder = _Sources()
_added_already: set[bytes] = set()


def add(archive: bytes) -> None:
    """Make the modules of a zip of sources importable.

    Another model of the function may have brought other parts of the same files. Parts are whole statements in
    the lines where they stand, so they join line by line; a module that is imported already runs what is new.
    """
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)
    mark = hashlib.sha256(archive).digest()
    if mark in _added_already:
        return
    _added_already.add(mark)
    with zipfile.ZipFile(io.BytesIO(archive)) as opened:
        unpacked = sum(entry.file_size for entry in opened.infolist())  # no more than these are read
        if unpacked > MAX_BYTES:
            raise ValueError(f"its sources unpack to {unpacked} bytes; {MAX_BYTES} are allowed")
        fresh = {name: opened.read(name).decode() for name in opened.namelist()}
    known = {name: _finder.files[name] for name in fresh if name in _finder.files}
    for name, text in fresh.items():
        _finder.files[name] = _joined(known[name], text) if name in known else text
    for name, text in known.items():
        module = sys.modules.get(name.removesuffix(".py").removesuffix("/__init__").replace("/", "."))
        added = _added(text, fresh[name])
        if module is not None and added.strip():
            exec(compile(added, name, "exec", dont_inherit=True), module.__dict__)  # noqa: S102


def has(name: str) -> bool:
    """Whether a module is the user's own."""
    return _finder._path(name) is not None


def module(name: str) -> ModuleType:
    """A module by the name that it has in the user's process."""
    return importlib.import_module(MAIN if name == "__main__" else name)


def _joined(one: str, other: str) -> str:
    lines = zip_longest(one.splitlines(), other.splitlines(), fillvalue="")
    return "\n".join(first or second for first, second in lines) + "\n"


def _added(known: str, fresh: str) -> str:
    """The lines of `fresh` that `known` lacks, in their places; what they import from __future__ holds for them too."""
    lines = zip_longest(known.splitlines(), fresh.splitlines(), fillvalue="")
    return "\n".join(new if not old or old.startswith("from __future__") else "" for old, new in lines)
