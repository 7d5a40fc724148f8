"""Processes that a function's process left behind: what it forked into sessions of their own.

As root every replica has a mount namespace, which all its descendants share and nobody else does; without
root the process group and an environment variable must do. What is noted on disk lets a host that was
killed clean up when it starts again; workers of the GPU manager run under the same uid and are never touched.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
from pathlib import Path

MARK = "SLICEWISE_REPLICA"


class Leftovers:
    """Remembers replicas' processes in `state_dir/replicas.json` and kills what is left of them."""

    def __init__(self, state_dir: Path) -> None:
        self._path = state_dir / "replicas.json"
        self._known: dict[str, dict[str, int]] = {}

    def clean_start(self) -> int:
        """Kill what an earlier host left; returns how many processes that were."""
        with contextlib.suppress(OSError, ValueError):
            self._known = json.loads(self._path.read_text())
        killed = sum(self.sweep(replica) for replica in list(self._known))
        self._save()
        return killed

    def remember(self, replica: str, pid: int, uid: int) -> None:
        """Note a function process just forked."""
        self._known[replica] = {"uid": uid, "pid": pid}
        self._save()

    def learn(self, replica: str) -> None:
        """Note the mount namespace of its process, now that it has one; all its descendants share it."""
        known = self._known.get(replica)
        if known is None or "namespace" in known:
            return
        with contextlib.suppress(OSError):
            namespace = os.stat(f"/proc/{known['pid']}/ns/mnt").st_ino
            if namespace != os.stat("/proc/self/ns/mnt").st_ino:
                known["namespace"] = namespace
                self._save()

    def sweep_all(self) -> None:
        """Kill all that is known; the last thing a host does when time is short."""
        for replica in list(self._known):
            self.sweep(replica)

    def sweep(self, replica: str) -> int:
        """Kill all that belongs to a replica; blocking, a few milliseconds."""
        known = self._known.pop(replica, None)
        if known is None:
            return 0
        mark = f"{MARK}={replica}".encode()
        killed = 0
        for _ in range(5):  # what forks while it is being killed is met in the next round
            found = [pid for pid in _processes() if pid != os.getpid() and self._belongs(pid, known, mark)]
            for pid in found:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
                    killed += 1
            if not found:
                break
        self._save()
        return killed

    def _belongs(self, pid: int, known: dict[str, int], mark: bytes) -> bool:
        try:
            if os.stat(f"/proc/{pid}").st_uid != (known["uid"] or os.getuid()):
                return False
            if mark in Path(f"/proc/{pid}/environ").read_bytes():
                return True
            namespace = known.get("namespace")
            return namespace is not None and os.stat(f"/proc/{pid}/ns/mnt").st_ino == namespace
        except OSError:
            return False

    def _save(self) -> None:
        fresh = self._path.with_suffix(".tmp")
        with contextlib.suppress(OSError):
            fresh.write_text(json.dumps(self._known))
            fresh.replace(self._path)


def _processes() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]
