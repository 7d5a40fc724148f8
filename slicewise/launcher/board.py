"""What the launcher knows of its processes, and the file in which everyone else reads it.

The file is replaced in one step on every change. It is never believed without the lock: a launcher
that was killed cannot say so.
"""

from __future__ import annotations

import json
import os
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

WAITING, STARTING, READY, RESTARTING, STOPPED = "waiting", "starting", "ready", "restarting", "stopped"
PHASES = ("starting", "ready", "stopping", "failed")


@dataclass
class Entry:
    """One process. Times are Unix seconds, 0 when they do not apply."""

    name: str
    state: str = WAITING
    pid: int = 0
    restarts: int = 0
    started: float = 0.0
    ready: float = 0.0
    error: str = ""
    """Why it last ended, with the last lines of its log."""


@dataclass
class Board:
    """The whole platform as its launcher sees it."""

    path: Path
    url: str = ""
    addresses: dict[str, int] = field(default_factory=dict)
    entries: dict[str, Entry] = field(default_factory=dict)
    phase: str = "starting"
    failure: str = ""
    started: float = field(default_factory=time.time)

    def document(self) -> dict[str, Any]:
        """What the file holds."""
        return {
            "pid": os.getpid(),
            "phase": self.phase,
            "failure": self.failure,
            "started": self.started,
            "url": self.url,
            "addresses": self.addresses,
            "processes": {name: asdict(entry) for name, entry in self.entries.items()},
        }

    def publish(self) -> None:
        """Write the file. A full disk must not end the launcher: the old file stays then."""
        fresh = self.path.with_suffix(".new")
        try:
            fresh.write_text(json.dumps(self.document(), indent=1) + "\n")
            fresh.replace(self.path)
        except OSError:
            fresh.unlink(missing_ok=True)


def read(path: Path) -> dict[str, Any]:
    """The last published document, empty if there is none."""
    try:
        document = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return document if isinstance(document, dict) else {}
