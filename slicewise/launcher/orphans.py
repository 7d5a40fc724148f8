"""Nothing that a service has started outlives it: the launcher adopts what is left behind and ends it.

Children carry a death signal of their own, but the kernel forgets it when a process changes its
user, and a handler may detach whatever it likes. As their reaper the launcher sees them all.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import signal

import psutil

_PR_SET_CHILD_SUBREAPER = 36


class Orphans:
    """Knows which children are services; every other child of this process is a left-over."""

    def __init__(self) -> None:
        self._services: set[int] = set()
        # Held while a service is being forked: until its pid is known it would look like a left-over.
        self.forking = asyncio.Lock()

    @staticmethod
    def adopt() -> None:
        """From now on orphaned descendants become children of this process."""
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)

    def serving(self, pid: int) -> None:
        """A service has this pid."""
        self._services.add(pid)

    def ended(self, pid: int) -> None:
        """That service has been waited for."""
        self._services.discard(pid)

    async def sweep(self) -> int:
        """End left-overs with all their descendants and take their zombies away; how many there were."""
        async with self.forking:
            left = [child for child in psutil.Process().children() if child.pid not in self._services]
        if not left:
            return 0
        doomed = [*left]
        for child in left:
            with contextlib.suppress(psutil.Error):
                doomed += child.children(recursive=True)
        for process in doomed:
            # psutil compares start times, so a number that was given to another process is safe.
            with contextlib.suppress(psutil.Error):
                process.send_signal(signal.SIGKILL)
        for child in left:
            await asyncio.to_thread(_reap, child.pid)
        return len(doomed)

    async def end_all(self) -> int:
        """Sweep until nothing is left; only when every service has ended."""
        total = 0
        for _ in range(10):
            found = await self.sweep()
            total += found
            if not found:
                break
        return total


def _reap(pid: int) -> None:
    # Killed above, so this ends as soon as the kernel is done with it.
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, 0)
