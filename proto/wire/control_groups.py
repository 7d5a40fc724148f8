"""Where a service may make cgroups of one controller, in whichever version this machine has it.

A node's workers and a host's replicas live in groups below such a home. It bears the service's pid in its name, so that
what a killed service has left is seen by the next one, and taken away.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

PREFIX = "slicewise-"
MOUNTS, GROUPS = "/proc/self/mountinfo", "/proc/self/cgroup"
# What has been killed is gone in a moment; what is not gone then is met by the next one who sweeps.
END_TRIES, END_PAUSE_S = 20, 0.002
# A file that a group has once the controller works in it.
_PROOF = {"memory": {1: "memory.limit_in_bytes", 2: "memory.max"}, "pids": {1: "pids.max", 2: "pids.max"}}


@dataclass(frozen=True, slots=True)
class Home:
    """A folder for groups of one service; `version` of cgroups, 1 or 2."""

    path: Path
    version: int

    def sweep(self) -> None:
        """End what is still in it, and remove it if that has gone."""
        _sweep(self.path)


def find(controller: str, name: str, mounts: str = MOUNTS, groups: str = GROUPS) -> Home | None:
    """Below this process's own group, or the nearest above that lets us; None where that is nowhere."""
    where = {line.split(":", 2)[1]: line.strip().split(":", 2)[2] for line in Path(groups).read_text().splitlines()}
    for line in Path(mounts).read_text().splitlines():
        before, _, after = line.partition(" - ")
        root, point = before.split()[3:5]
        kind, _, options = after.partition(" ")
        if kind == "cgroup" and controller in options.split()[-1].split(","):
            own = next((path for names, path in where.items() if controller in names.split(",")), "/")
            version = 1
        elif kind == "cgroup2":
            own, version = where.get("", "/"), 2
        else:
            continue
        top = Path(point)
        inside = own.removeprefix(root) if root != "/" else own
        folder = top / inside.lstrip("/")
        for parent in (folder, *folder.parents):
            if not parent.is_relative_to(top):
                break
            base = _make(parent, f"{PREFIX}{name}-{os.getpid()}", controller, version)
            if base is not None:
                return Home(base, version)
    return None


def _make(parent: Path, name: str, controller: str, version: int) -> Path | None:
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
        if version == 2:
            (base / "cgroup.subtree_control").write_text(f"+{controller}")
        probe = base / "probe"
        probe.mkdir()
        useful = (probe / _PROOF[controller][version]).exists()
        probe.rmdir()
        if useful:
            return base
    _sweep(base)
    return None


def _sweep(base: Path) -> None:
    with contextlib.suppress(OSError):
        for path in base.iterdir():
            if path.is_dir():
                with contextlib.suppress(OSError):
                    _end(path)
                    path.rmdir()
        base.rmdir()


def _end(group: Path) -> None:
    for _ in range(END_TRIES):
        found = members(group)
        if not found:
            return
        for pid in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(END_PAUSE_S)


def members(group: Path) -> list[int]:
    """The processes in a group that this process can see; raises OSError if the group is gone."""
    pids = [int(text) for text in (group / "cgroup.procs").read_text().split()]
    return [pid for pid in pids if pid]  # 0: one of a PID namespace that is not below ours
