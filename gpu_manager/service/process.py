"""One worker process as its GPU manager sees it: requests out, answers in, and its end, seen through a pidfd."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import signal
import socket
from collections.abc import Callable
from typing import Any

from gpu_manager.service.cgroups import Cgroup
from gpu_manager.service.zygotes import Zygote
from proto.types.errors import SlicewiseError
from proto.wire import frames

Answered = Callable[[dict[str, Any], list[int]], None]


class WorkerEnded(Exception):
    """The worker died with the request; `gone` says why."""


WHY_S = 0.5  # how long the zygote's word on a worker's end is waited for


class WorkerProcess:
    """A forked worker. `gone(why)` is called once, when the process has been taken down by the kernel."""

    def __init__(self, zygote: Zygote, pid: int, pidfd: int, sock: socket.socket, gone: Callable[[str], None]) -> None:
        self.pid = pid
        self.killed = ""
        self.cgroup: Cgroup | None = None
        self.limit_bytes = 0  # what it has been told; 0: nothing yet
        self._pidfd = pidfd
        self._gone = gone
        self._connection = frames.FrameConnection(sock)
        self._waiting: dict[int, Answered] = {}
        self._asked: set[asyncio.Future[dict[str, Any]]] = set()
        self._ids = itertools.count(1)
        self._loop = asyncio.get_running_loop()
        self._status = zygote.exit_status(pid)
        self._ended = False
        self._loop.add_reader(pidfd, self._exited)
        self._reader = asyncio.create_task(self._read())
        self._tasks: set[asyncio.Task[None]] = set()

    def request(self, header: dict[str, Any], fds: list[int], answered: Answered) -> None:
        """Send one request; `answered` gets the answer and closes its descriptors. A dead worker never answers."""
        number = next(self._ids)
        self._waiting[number] = answered
        task = asyncio.create_task(self._send({**header, "id": number}, [os.dup(fd) for fd in fds]))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _send(self, header: dict[str, Any], fds: list[int]) -> None:
        try:
            await self._connection.send(header, fds)
        except frames.FrameError as error:
            if not self._connection.closed:  # the request itself is at fault
                answered = self._waiting.pop(header["id"], None)
                if answered is not None:
                    answered({"ok": False, "error": {"code": "bad_request", "message": f"{error}."}}, [])
        finally:
            frames.close_fds(fds)

    async def ask(self, header: dict[str, Any], fds: list[int], timeout_s: float) -> dict[str, Any]:
        """One request and its answer; raises WorkerEnded or TimeoutError."""
        if self._ended:
            raise WorkerEnded
        answer: asyncio.Future[dict[str, Any]] = self._loop.create_future()

        def answered(header: dict[str, Any], fds: list[int]) -> None:
            frames.close_fds(fds)
            if not answer.done():
                answer.set_result(header)

        self.request(header, fds, answered)
        self._asked.add(answer)
        try:
            async with asyncio.timeout(timeout_s):
                return await answer
        finally:
            self._asked.discard(answer)

    async def _read(self) -> None:
        while True:
            try:
                header, fds = await self._connection.receive()
            except frames.FrameError:
                break
            number = header.get("id")
            answered = self._waiting.pop(number, None) if isinstance(number, int) else None
            # It runs a user's code: what it says is not taken for granted, and who waits for it is not left waiting.
            if answered is None:
                frames.close_fds(fds)
                self.kill("it answered what nobody had asked")
                break
            try:
                answered(header, fds)
            except (ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
                self.kill(f"its answer was none ({type(error).__name__})")
                break
        # Mostly it has died, and its pidfd says so; one that hung up but lives is of no use.
        await asyncio.sleep(WHY_S)
        if not self._ended:
            self.kill("it hung up")

    def kill(self, reason: str) -> None:
        """End the whole process group. `gone` follows."""
        if self._ended:
            return
        self.killed = self.killed or reason
        self._kill_group()
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)

    def _kill_group(self) -> None:
        # Before its setsid the child is still in its zygote's group; then only the pidfd reaches it.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if os.getpgid(self.pid) == self.pid:
                os.killpg(self.pid, signal.SIGKILL)

    def _exited(self) -> None:
        if self._ended:
            return
        self._ended = True
        self._loop.remove_reader(self._pidfd)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)  # what it forked itself
        os.close(self._pidfd)
        self._connection.close()
        self._waiting.clear()
        for answer in self._asked:
            if not answer.done():
                answer.set_exception(WorkerEnded())
        if self.killed:
            self._status.cancel()
            self._gone(self.killed)
        else:
            task = asyncio.create_task(self._tell_why())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _tell_why(self) -> None:
        why = "it ended"
        with contextlib.suppress(TimeoutError, asyncio.CancelledError):
            async with asyncio.timeout(WHY_S):
                status = await self._status
            why = f"it exited with status {status}"
            if status < 0:
                why = f"it was killed by {signal.Signals(-status).name}"
        self._gone(why)

    async def close(self) -> None:
        """End it without a word to anyone."""
        self._gone = lambda why: None
        self.kill("the node stops")
        self._reader.cancel()
        await asyncio.gather(self._reader, return_exceptions=True)


def error_of(header: dict[str, Any]) -> SlicewiseError:
    """The error in a worker's answer."""
    error = header.get("error") or {}
    return SlicewiseError(str(error.get("code") or "internal"), str(error.get("message") or "The worker failed."))
