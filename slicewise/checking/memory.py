"""What a function's worker holds: after its load, and at most while it served."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from slicewise.checking.platform import PrivatePlatform

_PAUSE_S = 0.1
_FIELD = re.compile(r"^(VmHWM|VmRSS):\s+(\d+) kB", re.M)


@dataclass(frozen=True)
class Memory:
    """Bytes; 0: no worker was there to be asked. `how` says what the peak comes from."""

    held_bytes: int = 0
    peak_bytes: int = 0
    how: str = ""
    slices: list[dict[str, Any]] = field(default_factory=list)


def loaded(platform: PrivatePlatform, name: str) -> int:
    """What the worker held when it was last measured, asked right after the first call."""
    models = platform.gateway.system("GET", "/system/models").json()["models"]
    mine = [int(item.get("held_bytes") or 0) for item in models if item["function"].partition(".")[0] == name]
    return max(mine, default=0)


def look(platform: PrivatePlatform, name: str, loaded_bytes: int, settle_s: float) -> Memory:
    """Ask the GPU manager once it has measured what the last call left; `settle_s` is how long that may take."""
    deadline = time.monotonic() + settle_s
    held = loaded_bytes
    while True:
        peak, how = 0, ""  # the last word counts: before it has been measured, a worker is charged what it may need
        held = held or loaded(platform, name)
        status = platform.node_status()
        for worker in (worker for item in status["slices"] for worker in item["workers"]):
            if worker["key"].partition(".")[0] != name:
                continue
            charge = int(worker["held_bytes"])
            above = _above(int(worker["pid"])) if "memory" in status["isolation_missing"] else 0
            if charge + above >= peak:
                peak = charge + above
                how = "its memory and the kernel's high-water mark" if above else "what the platform charges it"
        if time.monotonic() > deadline:
            return Memory(held, max(peak, held), how)
        time.sleep(_PAUSE_S)


def _above(pid: int) -> int:
    """How far the process once was above what it has now; for machines without memory cgroups."""
    try:
        found = {key: int(kilobytes) for key, kilobytes in _FIELD.findall(Path(f"/proc/{pid}/status").read_text())}
    except OSError:
        return 0
    return max(0, found.get("VmHWM", 0) - found.get("VmRSS", 0)) * 1024
