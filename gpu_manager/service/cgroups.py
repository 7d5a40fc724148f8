"""A memory cgroup for each worker of a CPU slice: the kernel's own word that it never passes its limit.

RLIMIT_DATA, which a worker sets itself, makes an overrun an exception that says how much was wanted, but it
counts address space and misses pages that are copied from the zygote. The cgroup counts pages, so it is what holds.
Both versions are used, whichever has the memory controller here; where this process may not make
cgroups there are none, and the node says so.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from dataclasses import dataclass
from pathlib import Path

_log = logging.getLogger(__name__)

PREFIX = "slicewise-"
SPARE_BYTES = 1 << 20  # page tables and what else the kernel counts beside pages
REMOVE_TRIES = 50
REMOVE_EVERY_S = 0.02


@dataclass(frozen=True, slots=True)
class _Files:
    """What the two versions call the same things."""

    limit: str
    usage: str
    peak: str
    events: str
    mapped: str
    caches: tuple[str, ...]
    no_swap: tuple[str, str]


_V1 = _Files(
    "memory.limit_in_bytes", "memory.usage_in_bytes", "memory.max_usage_in_bytes", "memory.oom_control",
    "mapped_file", ("inactive_file", "active_file"), ("memory.swappiness", "0"),
)  # fmt: skip
_V2 = _Files(
    "memory.max", "memory.current", "memory.peak", "memory.events",
    "file_mapped", ("inactive_file", "active_file"), ("memory.swap.max", "0"),
)  # fmt: skip


class Cgroup:
    """One worker's. Bytes that it may grow by are counted from `settle` on, when what it holds is known."""

    def __init__(self, path: Path, files: _Files) -> None:
        self.path = path
        self._files = files
        self._limit = os.open(path / files.limit, os.O_WRONLY | os.O_CLOEXEC)
        self._usage = os.open(path / files.usage, os.O_RDONLY | os.O_CLOEXEC)
        try:
            self._peak = os.open(path / files.peak, os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            self._peak = -1  # a kernel that has none, or none that can be reset
        self._offset = 0  # bytes held - bytes counted here
        self._counted = 0
        self._held = 0
        self._resets = False

    def join(self, pid: int) -> None:
        """Move a process in; what it has touched before is not counted here. Raises OSError if it is gone."""
        (self.path / "cgroup.procs").write_text(str(pid))

    def limit(self, limit_bytes: int) -> None:
        """Let the worker hold so many bytes; what it holds above is taken by ending it."""
        allowed = max(SPARE_BYTES, limit_bytes - self._offset + SPARE_BYTES)
        try:
            os.pwrite(self._limit, str(allowed).encode(), 0)
        except OSError as error:  # version 1 refuses a limit below what cannot be given back
            _log.warning("%s holds more than %d bytes: %s", self.path.name, allowed, error)

    def loading(self, mapped_bytes: int) -> None:
        """A load is about to map so many bytes of a file, which count as held and not here."""
        self._offset += mapped_bytes

    def settle(self, held_bytes: int) -> None:
        """The worker holds so much now: from here on growth is counted."""
        usage = int(os.pread(self._usage, 32, 0))
        stat = dict(line.split() for line in (self.path / "memory.stat").read_text().splitlines())
        cache = sum(int(stat.get(name, 0)) for name in self._files.caches) - int(stat.get(self._files.mapped, 0))
        self._counted = usage
        self._held = held_bytes
        self._offset = held_bytes - (usage - max(0, cache))
        self._resets = self._reset()

    def _reset(self) -> bool:
        if self._peak < 0:
            return False
        try:
            os.pwrite(self._peak, b"0", 0)
        except OSError:
            return False
        return True

    def peak_bytes(self) -> int:
        """The most that the worker has held since `settle`; 0: this kernel does not say."""
        if not self._resets:
            return 0
        return self._held + max(0, int(os.pread(self._peak, 32, 0)) - self._counted)

    def ended_it(self) -> bool:
        """Whether the kernel has ended a process in here because of the limit."""
        with contextlib.suppress(OSError):
            for line in (self.path / self._files.events).read_text().splitlines():
                name, _, count = line.partition(" ")
                if name == "oom_kill":
                    return int(count) > 0
        return False

    async def remove(self) -> None:
        """Take it away, once its processes are gone."""
        for number in (self._limit, self._usage, self._peak):
            if number >= 0:
                os.close(number)
        for _ in range(REMOVE_TRIES):
            try:
                self.path.rmdir()
                return
            except FileNotFoundError:
                return
            except OSError:
                await asyncio.sleep(REMOVE_EVERY_S)
        _log.warning("%s could not be removed", self.path)


class Cgroups:
    """Where this node's workers have theirs; `base` None: nowhere."""

    def __init__(self, base: Path | None, files: _Files) -> None:
        self.base = base
        self._files = files

    def make(self, name: str) -> Cgroup | None:
        """A cgroup for one worker; None where there are none."""
        if self.base is None:
            return None
        path = self.base / name
        try:
            path.mkdir()
            with contextlib.suppress(OSError):  # a kernel without swap accounting has nothing to switch off
                (path / self._files.no_swap[0]).write_text(self._files.no_swap[1])
            return Cgroup(path, self._files)
        except OSError as error:
            _log.warning("no cgroup for %s: %s", name, error)
            return None

    async def close(self) -> None:
        """Take the node's own away; its workers have been told to go."""
        for _ in range(REMOVE_TRIES):
            if self.base is None or not self.base.exists():
                return
            _sweep(self.base)
            await asyncio.sleep(REMOVE_EVERY_S)


def find(node: str, mounts: str = "/proc/self/mountinfo", groups: str = "/proc/self/cgroup") -> Cgroups:
    """Where this process may make memory cgroups: below its own one, or below the nearest above that lets it."""
    where = {line.split(":", 2)[1]: line.strip().split(":", 2)[2] for line in Path(groups).read_text().splitlines()}
    for line in Path(mounts).read_text().splitlines():
        before, _, after = line.partition(" - ")
        root, point = before.split()[3:5]
        kind, _, options = after.partition(" ")
        if kind == "cgroup" and "memory" in options.split()[-1].split(","):
            own = next((path for names, path in where.items() if "memory" in names.split(",")), "/")
            files = _V1
        elif kind == "cgroup2":
            own, files = where.get("", "/"), _V2
        else:
            continue
        top = Path(point)
        inside = own.removeprefix(root) if root != "/" else own
        folder = top / inside.lstrip("/")
        for parent in (folder, *folder.parents):
            if not parent.is_relative_to(top):
                break
            base = _make_base(parent, f"{PREFIX}{node}-{os.getpid()}", files)
            if base is not None:
                return Cgroups(base, files)
    return Cgroups(None, _V2)


def _make_base(parent: Path, name: str, files: _Files) -> Path | None:
    if not os.access(parent, os.W_OK):
        return None
    for leftover in parent.glob(f"{PREFIX}*-*"):
        pid = leftover.name.rpartition("-")[2]
        if pid.isdecimal() and not Path("/proc", pid).exists():
            _sweep(leftover)
    base = parent / name
    try:
        base.mkdir(exist_ok=True)
    except OSError:
        return None
    with contextlib.suppress(OSError):
        if files is _V2:
            (base / "cgroup.subtree_control").write_text("+memory")
        probe = base / "probe"
        probe.mkdir()
        useful = (probe / files.limit).exists()
        probe.rmdir()
        if useful:
            return base
    _sweep(base)
    return None


def _sweep(base: Path) -> None:
    """Remove a node's folder and what workers have left in it."""
    with contextlib.suppress(OSError):
        for path in base.iterdir():
            if path.is_dir():
                with contextlib.suppress(OSError):
                    path.rmdir()
        base.rmdir()
