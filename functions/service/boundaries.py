"""What the kernel holds a replica to: how many processes it may have, how much memory, and that all of them end.

Each replica has a cgroup of either kind, where this host may make them. Nothing leaves its cgroup, whatever session,
namespace or parent it gives itself, so what is found in there at the end is all that is left of the replica.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

from proto.wire import control_groups
from proto.wire.control_groups import Home

_log = logging.getLogger(__name__)

# Guards against a hang only: a process that has been killed ends when it is next scheduled.
KILL_TIMEOUT_S = 5.0
KILL_PAUSE_S = 0.002
_LIMIT = {1: "memory.limit_in_bytes", 2: "memory.max"}
_EVENTS = {1: "memory.oom_control", 2: "memory.events"}
_NO_SWAP = {1: ("memory.swappiness", "0"), 2: ("memory.swap.max", "0")}


@dataclass
class Bounds:
    """One replica's groups; empty where there are none. All methods block for microseconds, `end` for milliseconds."""

    processes: Path | None = None
    memory: Path | None = None
    memory_bytes: int = 0
    version: int = 2
    _ended: int = 0

    @property
    def entrances(self) -> list[str]:
        """The files by which a process joins."""
        return [str(folder / "cgroup.procs") for folder in self._folders()]

    def _folders(self) -> list[Path]:
        return sorted({folder for folder in (self.processes, self.memory) if folder is not None})

    def passed_memory(self) -> bool:
        """Whether the kernel has ended a process of it because of the limit, since this was asked last."""
        if self.memory is None or not self.memory_bytes:
            return False
        before = self._ended
        with contextlib.suppress(OSError):
            for line in (self.memory / _EVENTS[self.version]).read_text().splitlines():
                name, _, count = line.partition(" ")
                if name == "oom_kill":
                    self._ended = int(count)
        return self._ended > before

    def end(self) -> int:
        """Kill all that is in there; returns how many there were."""
        if self.processes is None:
            return 0
        limit = self.processes / "pids.max"
        killed: set[int] = set()
        try:
            allowed = limit.read_text()
            limit.write_text("0")  # what is killed makes no more of its kind
            until = time.monotonic() + KILL_TIMEOUT_S
            while (found := control_groups.members(self.processes)) and time.monotonic() < until:
                for pid in found:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                killed.update(found)
                time.sleep(KILL_PAUSE_S)
            limit.write_text(allowed)
        except OSError as error:
            _log.warning("%s cannot be emptied: %s", self.processes, error)
        return len(killed)

    def remove(self) -> None:
        """Take the groups away, with all that is in them."""
        self.end()
        for folder in self._folders():
            try:
                folder.rmdir()
            except OSError as error:
                _log.warning("%s cannot be removed: %s", folder, error)


class Boundaries:
    """Where a host's replicas have their groups."""

    def __init__(self, node: str) -> None:
        self._processes = control_groups.find("pids", f"host-{node}")
        self._memory = control_groups.find("memory", f"host-{node}")

    @property
    def missing(self) -> list[str]:
        """What cannot be bounded here."""
        homes = {"processes": self._processes, "memory": self._memory}
        return [name for name, home in homes.items() if home is None]

    def make(self, replica: str, max_processes: int, memory_bytes: int) -> Bounds:
        """The groups of one replica; `memory_bytes` 0: no limit."""
        bounds = Bounds(memory_bytes=memory_bytes)
        try:
            if self._processes is not None:
                bounds.processes = _group(self._processes, replica)
                (bounds.processes / "pids.max").write_text(str(max_processes))
            if self._memory is not None and memory_bytes:
                bounds.memory, bounds.version = _group(self._memory, replica), self._memory.version
                name, value = _NO_SWAP[bounds.version]
                with contextlib.suppress(OSError):  # a kernel without swap accounting has nothing to switch off
                    (bounds.memory / name).write_text(value)
                (bounds.memory / _LIMIT[bounds.version]).write_text(str(memory_bytes))
        except OSError as error:
            _log.warning("replica %s is not bounded: %s", replica, error)
        return bounds

    def close(self) -> None:
        """Take the host's own away; its replicas are gone."""
        for home in (self._processes, self._memory):
            if home is not None:
                home.sweep()


def _group(home: Home, replica: str) -> Path:
    folder = home.path / replica
    folder.mkdir(exist_ok=True)
    return folder
