"""A running program: its first words on stdout, and its end.

asyncio's own subprocesses tell of an end only when nobody holds their pipes any more, and what a
service leaves behind may hold them for ever. Here the end is the process's own, told by a pidfd.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import signal
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

_CHUNK = 64 * 1024
_MAX_LINE = 64 * 1024
_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)


def _tie(parent: int) -> Callable[[], None]:
    """Between fork and exec: have the kernel kill the child when the launcher dies, however it dies."""

    def tie() -> None:
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)  # it died before the wish was heard

    return tie


class Program:
    """Started at once, in a process group of its own; must be made on the thread of the event loop.

    `on_line` gets each line of its stdout until it returns true; what comes later is thrown away, so
    that a full pipe never blocks the program.
    """

    def __init__(
        self,
        command: Sequence[str],
        log_fd: int,
        on_line: Callable[[bytes], bool] | None,
        folder: Path | None = None,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._on_line = on_line
        self._line = b""
        self._ended: asyncio.Future[int] = self._loop.create_future()
        self._popen = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE if on_line else log_fd,
            stderr=log_fd,
            start_new_session=True,
            cwd=folder,
            preexec_fn=_tie(os.getpid()),
        )
        self.pid = self._popen.pid
        self._pidfd = os.pidfd_open(self.pid)
        self._loop.add_reader(self._pidfd, self._on_end)
        self._pipe = self._popen.stdout
        if self._pipe is not None:
            os.set_blocking(self._pipe.fileno(), False)
            self._loop.add_reader(self._pipe.fileno(), self._on_output)

    @property
    def running(self) -> bool:
        """Whether it has not been waited for yet."""
        return not self._ended.done()

    async def wait(self) -> int:
        """Its exit status, negative for a signal. May be cancelled and called again."""
        return await asyncio.shield(self._ended)

    def signal(self, number: signal.Signals) -> None:
        """To the program alone; nothing if it has ended."""
        if self.running:
            self._popen.send_signal(number)

    def kill_group(self) -> None:
        """SIGKILL to it and what it started in its group, also after its own end."""
        # The group bears the leader's number, which no other process can get while the group has members.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)

    def _on_end(self) -> None:
        status = self._popen.poll()
        if status is None:
            return
        self._loop.remove_reader(self._pidfd)
        os.close(self._pidfd)
        self._close_pipe()
        self._ended.set_result(status)

    def _on_output(self) -> None:
        assert self._pipe is not None
        try:
            data = os.read(self._pipe.fileno(), _CHUNK)
        except BlockingIOError:
            return
        if not data:
            self._close_pipe()
            return
        if self._on_line is None:
            return
        *lines, rest = (self._line + data).split(b"\n")
        self._line = rest[-_MAX_LINE:]
        for line in lines:
            if self._on_line(line):
                self._on_line, self._line = None, b""
                return

    def _close_pipe(self) -> None:
        if self._pipe is not None and not self._pipe.closed:
            self._loop.remove_reader(self._pipe.fileno())
            self._pipe.close()
