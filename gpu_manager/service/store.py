"""The model store: one file a model, whole or not there at all.

`models/NAME.NAMESPACE/DIGEST` is the package, `DIGEST.json` beside it the model's record, its size and its
sha256; the record is written last, so a package counts only when it is complete. Packages are kept
per function: what a worker unpickles under its function's uid was put there by that function and
nobody else, even if another claims the same digest.
"""

from __future__ import annotations

import asyncio
import dataclasses
import errno
import hashlib
import json
import logging
import os
import re
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from proto.types.errors import SlicewiseError
from proto.types.identity import WorkerKey
from proto.types.models import Model

_log = logging.getLogger(__name__)

COPY_BYTES = 4 << 20
MAX_MANIFEST_BYTES = 64 << 20
_DIGEST = re.compile(r"^[A-Za-z0-9][A-Za-z0-9:_-]{7,127}$")
_FUNCTION = re.compile(r"[a-z0-9][-a-z0-9]*(\.[a-z0-9][-a-z0-9]*)+")
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_TEMPORARY = ".partial"


@dataclass(frozen=True, slots=True)
class Stored:
    """A package on this disk. `sha256` is that of the file, `size` its bytes."""

    model: Model
    size: int
    sha256: str
    path: Path


def function_of(model: Model) -> str:
    """NAME.NAMESPACE of the function that the model belongs to; raises SlicewiseError `bad_request`."""
    try:
        function = str(WorkerKey.parse(model.worker).function)
    except ValueError as error:
        raise SlicewiseError("bad_request", f"{error}.") from error
    if not _FUNCTION.fullmatch(function):  # it becomes a folder's name
        raise SlicewiseError("bad_request", f"{function[:80]!r} is no function's name.")
    return function


def check_digest(digest: str) -> None:
    """Refuse what cannot be a digest, before it becomes a file's name."""
    if not _DIGEST.match(digest):
        raise SlicewiseError("bad_digest", f"{digest[:80]!r} is no digest.")


class Store:
    """Packages under `root`. All methods but the `async` ones are quick."""

    def __init__(self, root: Path, changed: Callable[[], None] = lambda: None) -> None:
        self._root = root
        self._changed = changed
        self._held: dict[tuple[str, str], Stored] = {}
        self._arriving: dict[tuple[str, str], asyncio.Lock] = {}
        self._numbers = 0
        root.mkdir(parents=True, exist_ok=True)
        root.chmod(0o700)  # a worker is given its own package as a descriptor; nobody else opens one
        self._read()

    def _read(self) -> None:
        for partial in self._root.glob(f"*/*{_TEMPORARY}"):
            partial.unlink(missing_ok=True)
        for note in self._root.glob("*/*.json"):
            path = note.with_suffix("")
            try:
                record = json.loads(note.read_text())
                fields = record["model"]
                fields["distributions"] = tuple(tuple(item) for item in fields.get("distributions", ()))
                stored = Stored(Model(**fields), record["size"], record["sha256"], path)
                if path.stat().st_size != stored.size:
                    raise ValueError("its size is not the recorded one")
            except (OSError, ValueError, KeyError, TypeError) as error:
                _log.warning("package %s is dropped: %s", path, error)
                path.unlink(missing_ok=True)
                note.unlink(missing_ok=True)
                continue
            self._held[(path.parent.name, stored.model.digest)] = stored
        for path in self._root.glob("*/*"):
            if path.suffix != ".json" and (path.parent.name, path.name) not in self._held:
                path.unlink(missing_ok=True)

    def get(self, function: str, digest: str) -> Stored | None:
        """The package of a function's model, if it is here."""
        return self._held.get((function, digest))

    def digests(self) -> list[str]:
        """All that is here."""
        return sorted({digest for _, digest in self.packages()})

    def packages(self) -> list[tuple[str, str]]:
        """(NAME.NAMESPACE, digest) of all that is here."""
        return sorted(self._held)  # it copies first, in one step: a thread may be adding one

    def open(self, function: str, digest: str) -> int:
        """A read-only descriptor; raises SlicewiseError `not_found` or `bad_digest`."""
        stored = self.get(function, digest)
        if stored is None:
            raise SlicewiseError("not_found", f"Model {digest} of {function} is not on this node.")
        try:
            fd = os.open(stored.path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            self._drop((function, digest))
            raise SlicewiseError("not_found", f"Model {digest} of {function} has vanished from the disk.") from error
        if os.fstat(fd).st_size != stored.size:
            os.close(fd)
            self._drop((function, digest))
            raise SlicewiseError("bad_digest", f"The package of model {digest} is not what was stored.")
        return fd

    def damaged(self, function: str, digest: str) -> None:
        """A worker found that a package is not what its hashes say: it counts as missing, and may be brought again."""
        _log.error("package %s of %s is damaged and dropped", digest, function)
        self._drop((function, digest))

    async def put(self, model: Model, fd: int) -> Stored:
        """Copy a package from a descriptor, which the caller closes; a second put of one model is free.

        Raises SlicewiseError `bad_digest`, `disk_full` or `bad_request`; then nothing is left behind.
        """
        async with self.arriving(model) as known:
            if known is not None:
                return known
            size = os.fstat(fd).st_size
            if model.package_bytes and model.package_bytes != size:
                raise SlicewiseError(
                    "bad_digest",
                    f"The package of {model.digest} has {size} bytes; {model.package_bytes} were announced.",
                )
            return await asyncio.to_thread(self._copy, model, fd, size)

    def arriving(self, model: Model) -> _Arriving:
        """A context in which one arrival of a model runs at a time; gives the package if it has come meanwhile."""
        check_digest(model.digest)
        return _Arriving(self, (function_of(model), model.digest))

    def _copy(self, model: Model, fd: int, size: int) -> Stored:
        incoming = self.begin(model)
        try:
            offset = 0
            while offset < size:
                block = os.pread(fd, min(COPY_BYTES, size - offset), offset)
                if not block:
                    raise SlicewiseError("bad_digest", f"The package of {model.digest} was cut short.")
                incoming.write(block)
                offset += len(block)
            return incoming.finish()
        finally:
            incoming.abandon()

    def begin(self, model: Model) -> Incoming:
        """A package that arrives in pieces; `finish` or `abandon` it."""
        check_digest(model.digest)
        folder = self._root / function_of(model)
        self._numbers += 1
        try:
            folder.mkdir(exist_ok=True)
            return Incoming(self, model, folder / f"{model.digest}.{self._numbers}{_TEMPORARY}")
        except OSError as error:
            raise _disk(error, model.digest) from error

    def _accept(self, stored: Stored) -> None:
        self._held[(stored.path.parent.name, stored.model.digest)] = stored
        self._changed()

    def _drop(self, key: tuple[str, str]) -> None:
        stored = self._held.pop(key, None)
        if stored is not None:
            stored.path.with_name(stored.path.name + ".json").unlink(missing_ok=True)
            stored.path.unlink(missing_ok=True)
            self._changed()

    def collect(self, wanted: Iterable[str], grace_s: float, in_use: Iterable[str] = ()) -> bool:
        """Delete what no deployed function refers to; True if something young may have to go later.

        A worker that has a deleted package mapped keeps it until it ends; its disk space comes back then.
        """
        keep = set(wanted) | set(in_use)
        young = False
        for key, stored in list(self._held.items()):
            if stored.model.digest in keep:
                continue
            try:
                age = time.time() - stored.path.stat().st_mtime
            except OSError:
                age = grace_s
            if age < grace_s:
                young = True
                continue
            _log.info("package %s of %s is collected", key[1], key[0])
            self._drop(key)
        return young


class _Arriving:
    def __init__(self, store: Store, key: tuple[str, str]) -> None:
        self._store, self._key = store, key

    async def __aenter__(self) -> Stored | None:
        self._lock = self._store._arriving.setdefault(self._key, asyncio.Lock())
        await self._lock.acquire()
        return self._store.get(*self._key)

    async def __aexit__(self, *_: object) -> None:
        self._lock.release()
        if not self._lock.locked() and self._store.get(*self._key) is not None:
            self._store._arriving.pop(self._key, None)


class Incoming:
    """A package under way: a temporary file and the hash of what it has so far."""

    def __init__(self, store: Store, model: Model, path: Path) -> None:
        self._store = store
        self._model = model
        self._path = path
        self._hash = hashlib.sha256()
        self._size = 0
        self._file: BinaryIO | None = path.open("wb")

    def write(self, block: bytes) -> None:
        """Add bytes; raises SlicewiseError `disk_full`. Blocks: call it in a thread."""
        assert self._file is not None
        try:
            self._file.write(block)
        except OSError as error:
            raise _disk(error, self._model.digest) from error
        self._hash.update(block)
        self._size += len(block)

    def finish(self, sha256: str = "") -> Stored:
        """Verify and keep it; raises SlicewiseError `bad_digest` or `disk_full`."""
        assert self._file is not None
        model = self._model
        found = self._hash.hexdigest()
        if sha256 and sha256 != found:
            raise SlicewiseError("bad_digest", f"The package of {model.digest} was changed on its way here.")
        final = self._path.parent / model.digest
        note = self._path.parent / f"{model.digest}.json"
        try:
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()
            _verify(self._path, model)
            record = {"model": dataclasses.asdict(model), "size": self._size, "sha256": found}
            draft = self._path.with_name(f"{self._path.name}.note{_TEMPORARY}")
            try:
                draft.write_text(json.dumps(record))
                self._path.chmod(0o444)
                self._path.replace(final)
                draft.replace(note)
            finally:
                draft.unlink(missing_ok=True)
        except OSError as error:
            raise _disk(error, model.digest) from error
        self._file = None
        stored = Stored(model, self._size, found, final)
        self._store._accept(stored)
        return stored

    def abandon(self) -> None:
        """Leave nothing behind; free after `finish`."""
        if self._file is not None:
            self._file.close()
            self._file = None
            self._path.unlink(missing_ok=True)


def _disk(error: OSError, digest: str) -> SlicewiseError:
    if error.errno in _FULL:
        return SlicewiseError("disk_full", f"The model store has no room for model {digest}.")
    return SlicewiseError("unavailable", f"The model store cannot keep model {digest}: {error.strerror}.")


def _verify(path: Path, model: Model) -> None:
    """Hold the package against its own manifest: whose it says it is, and the hashes of what a worker reads."""

    def wrong(what: str) -> SlicewiseError:
        return SlicewiseError("bad_digest", f"The package of {model.digest} is refused: {what}.")

    size = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if size < 8 or not 0 < length <= min(size - 8, MAX_MANIFEST_BYTES):
            raise wrong("its manifest does not fit")
        try:
            manifest = json.loads(file.read(length))
            if manifest["digest"] != model.digest or manifest["kind"] != model.kind:
                raise wrong(f"it says it is {manifest['kind']} {manifest['digest']}")
            identity = json.dumps(manifest["identity"], sort_keys=True, separators=(",", ":"), ensure_ascii=True)
            if hashlib.sha256(identity.encode()).hexdigest() != model.digest:
                raise wrong("its digest is not that of what it describes")
            start = (8 + length + 63) // 64 * 64
            places = [manifest[name] for name in ("skeleton", "sources")]
            places += [(offset, nbytes) for _, _, offset, nbytes in manifest["tensors"]]
            for offset, nbytes in places:  # before anything is read: a size may be any number
                if not 0 <= int(offset) <= int(offset) + int(nbytes) <= size - start:
                    raise wrong("a part of it lies outside")
            for name in ("skeleton", "sources"):
                offset, nbytes = manifest[name]
                file.seek(start + offset)
                if hashlib.sha256(file.read(nbytes)).hexdigest() != manifest[f"{name}_sha256"]:
                    raise wrong(f"its {name} does not match its hash")
            for (_, _, offset, nbytes), expected in zip(manifest["tensors"], manifest["hashes"], strict=True):
                file.seek(start + offset)
                if _hash(file, nbytes) != expected:
                    raise wrong("a tensor does not match its hash")
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
            raise wrong("its manifest is damaged") from error


def _hash(file: BinaryIO, nbytes: int) -> str:
    """sha256 of the next bytes, or of what there is of them."""
    running = hashlib.sha256()
    while nbytes > 0:
        block = file.read(min(COPY_BYTES, nbytes))
        if not block:
            break
        running.update(block)
        nbytes -= len(block)
    return running.hexdigest()
