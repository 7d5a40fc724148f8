"""A cgroup for each worker of a CPU slice: the kernel's own word that it never passes its limits.

RLIMIT_DATA, which a worker sets itself, makes an overrun an exception that says how much was wanted, but it
counts address space and misses pages that are copied from the zygote. The cgroup counts pages, so it is what holds.
It also bounds how many processes and threads a worker has. Both versions are used, whichever has the controllers
here; where this process may not make cgroups there are none, and the node says so.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from dataclasses import dataclass
from pathlib import Path

from proto.wire import control_groups
from proto.wire.control_groups import Home

_log = logging.getLogger(__name__)

MAX_PROCESSES = 256  # threads count: torch starts one a core, compilers of models a few processes
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
    anonymous: str
    caches: tuple[str, ...]
    no_swap: tuple[str, str]


_V1 = _Files(
    "memory.limit_in_bytes", "memory.usage_in_bytes", "memory.max_usage_in_bytes", "memory.oom_control",
    "mapped_file", "rss", ("inactive_file", "active_file"), ("memory.swappiness", "0"),
)  # fmt: skip
_V2 = _Files(
    "memory.max", "memory.current", "memory.peak", "memory.events",
    "file_mapped", "anon", ("inactive_file", "active_file"), ("memory.swap.max", "0"),
)  # fmt: skip


class Cgroup:
    """One worker's. Bytes that it may grow by are counted from `settle` on, when what it holds is known."""

    def __init__(self, path: Path, files: _Files, processes: Path | None = None) -> None:
        self.path = path
        self._files = files
        self._processes = processes  # where its processes are counted, if that is another folder
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
        if self._processes is not None:  # the kernel's lock is at hand now: this takes some 20 microseconds
            (self._processes / "cgroup.procs").write_text(str(pid))

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

    def at_least(self, held_bytes: int) -> int:
        """What a worker says that it holds, unless the kernel counts more: it may run anybody's code."""
        return max(held_bytes, self._stat().get(self._files.anonymous, 0))

    def _stat(self) -> dict[str, int]:
        lines = (line.split() for line in (self.path / "memory.stat").read_text().splitlines())
        return {name: int(count) for name, count in lines}

    def settle(self, held_bytes: int) -> None:
        """The worker holds so much now: from here on growth is counted."""
        usage = int(os.pread(self._usage, 32, 0))
        stat = self._stat()
        cache = sum(stat.get(name, 0) for name in self._files.caches) - stat.get(self._files.mapped, 0)
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
        for path in (self.path, self._processes):
            if path is not None and not await _removed(path):
                _log.warning("%s could not be removed", path)


async def _removed(path: Path) -> bool:
    for _ in range(REMOVE_TRIES):
        try:
            path.rmdir()  # noqa: ASYNC240 - it touches no disk
            return True
        except FileNotFoundError:
            return True
        except OSError:
            await asyncio.sleep(REMOVE_EVERY_S)
    return False


class Cgroups:
    """Where this node's workers have theirs; `base` None: nowhere."""

    def __init__(self, memory: Home | None, processes: Home | None) -> None:
        self.base = memory.path if memory else None
        self._files = _V2 if memory is None or memory.version == 2 else _V1
        self._homes = [home for home in (memory, processes) if home is not None]
        self._processes = processes.path if processes else None

    def make(self, name: str) -> Cgroup | None:
        """A cgroup for one worker; None where there are none."""
        if self.base is None:
            return None
        path = self.base / name
        try:
            path.mkdir()
            with contextlib.suppress(OSError):  # a kernel without swap accounting has nothing to switch off
                (path / self._files.no_swap[0]).write_text(self._files.no_swap[1])
            return Cgroup(path, self._files, self._count(name))
        except OSError as error:
            _log.warning("no cgroup for %s: %s", name, error)
            return None

    def _count(self, name: str) -> Path | None:
        """Bound a worker's processes; the folder, if it is not that of its memory."""
        if self._processes is None:
            return None
        path = self._processes / name
        path.mkdir(exist_ok=True)
        (path / "pids.max").write_text(str(MAX_PROCESSES))
        return None if self._processes == self.base else path

    async def close(self) -> None:
        """Take the node's own away; its workers have been told to go."""
        for _ in range(REMOVE_TRIES):
            left = [home for home in self._homes if home.path.exists()]
            if not left:
                return
            for home in left:
                home.sweep()
            await asyncio.sleep(REMOVE_EVERY_S)


def find(node: str, mounts: str = control_groups.MOUNTS, groups: str = control_groups.GROUPS) -> Cgroups:
    """Where this process may make memory cgroups, and those that count processes."""
    memory = control_groups.find("memory", node, mounts, groups)
    processes = control_groups.find("pids", node, mounts, groups)
    return Cgroups(memory, processes)
