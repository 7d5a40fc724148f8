"""What is the case now, for `slicewise status`: the lock first, then the board, then the processes.

The board is the launcher's word; a pid on it counts only if that process lives.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

import psutil

from slicewise.launcher import board, lock
from slicewise.launcher.layout import Layout

DOWN, STARTING, READY, DEGRADED, STOPPING = "down", "starting", "ready", "degraded", "stopping"


@dataclass(frozen=True)
class Process:
    """One process as it is now; seconds and bytes, its children not counted."""

    name: str
    state: str
    pid: int
    uptime_s: float
    restarts: int
    rss_bytes: int
    error: str


@dataclass(frozen=True)
class Truth:
    """The state of one platform. `why` is a sentence, empty when it is ready."""

    state: str
    why: str = ""
    url: str = ""
    pid: int = 0
    processes: list[Process] = field(default_factory=list)
    addresses: dict[str, int] = field(default_factory=dict)


def look(layout: Layout) -> Truth:
    """Ask the kernel and the board; never raises for a platform that is not there."""
    pid = lock.holder(layout.lock)
    document = board.read(layout.board)
    if pid is None:
        return Truth(DOWN, _why_down(document))
    if document.get("pid") != pid:
        return Truth(STARTING, "The launcher has just started.", pid=pid)
    processes = [_process(entry) for entry in document["processes"].values()]
    url, addresses = str(document["url"]), dict(document["addresses"])
    state, why = _judge(str(document["phase"]), processes)
    return Truth(state, why, url, pid, processes, addresses)


def _judge(phase: str, processes: list[Process]) -> tuple[str, str]:
    bad = [process for process in processes if process.state != board.READY]
    if phase == "starting":
        return STARTING, "Waiting for " + (", ".join(item.name for item in bad) or "the last steps") + "."
    if phase != "ready":
        return STOPPING, "The launcher is stopping."
    if bad:
        return DEGRADED, "; ".join(f"{item.name} is {item.state}: {item.error or 'no reason known'}" for item in bad)
    return READY, ""


def _process(entry: dict[str, Any]) -> Process:
    state, pid, error = str(entry["state"]), int(entry["pid"]), str(entry["error"])
    rss, alive = _rss(pid) if pid else (0, False)
    if pid and not alive and state in (board.READY, board.STARTING):
        # The launcher has not noticed yet, or is itself stopped.
        state, error = board.RESTARTING, error or f"pid {pid} is gone"
    uptime = time.time() - float(entry["started"]) if alive else 0.0
    return Process(str(entry["name"]), state, pid if alive else 0, uptime, int(entry["restarts"]), rss, error)


def _rss(pid: int) -> tuple[int, bool]:
    try:
        process = psutil.Process(pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            return 0, False
        return int(process.memory_info().rss), True
    except psutil.Error:
        return 0, False


def _why_down(document: dict[str, Any]) -> str:
    if not document:
        return "It was never started on this state folder."
    if document.get("failure"):
        return f"The last start failed: {document['failure']}"
    if document.get("phase") == "stopped":
        return "It was stopped."
    return "The launcher ended without stopping its services in order; the kernel has ended them."
