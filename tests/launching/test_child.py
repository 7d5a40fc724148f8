"""One service under the launcher's care; the services here are small programs that misbehave for real."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import AsyncIterator, Callable
from itertools import pairwise
from pathlib import Path

import psutil
import pytest

from slicewise.launcher import board
from slicewise.launcher.child import Child
from slicewise.launcher.orphans import Orphans
from slicewise.launcher.services import Service

READY = 'import json; print(json.dumps({"ready": True, "service": "x"}), flush=True)\n'

Start = Callable[..., Child]


@pytest.fixture
async def start(tmp_path: Path) -> AsyncIterator[Start]:
    running: list[tuple[Child, asyncio.Task[None]]] = []

    def starting(program: str, orphans: Orphans | None = None) -> Child:
        service = Service("x", (sys.executable, "-c", textwrap.dedent(program)))
        child = Child(service, tmp_path / "x.log", lambda: None, orphans or Orphans())
        running.append((child, asyncio.create_task(child.run())))
        return child

    yield starting
    for child, task in running:
        await child.stop()
        await asyncio.wait_for(task, 20)


async def _until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


def _alive(pid: int) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    return False


async def test_a_service_that_dies_is_started_again_and_the_reason_is_kept(start: Start) -> None:
    child = start(READY + "import time; time.sleep(600)")
    await _until(lambda: child.entry.state == board.READY)
    first = child.entry.pid
    os.kill(first, signal.SIGKILL)
    await _until(lambda: child.entry.state == board.READY and child.entry.pid not in (0, first))
    assert child.entry.restarts == 1
    assert "SIGKILL" in child.entry.error


async def test_one_that_never_becomes_ready_is_given_up_with_its_last_words(start: Start) -> None:
    child = start("raise ValueError('the disk is on fire')")
    reason = await asyncio.wait_for(child.failed, 30)
    assert "status 1" in reason
    assert "ValueError: the disk is on fire" in reason
    assert child.entry.state == board.STOPPED


async def test_bad_settings_are_not_tried_twice(start: Start, tmp_path: Path) -> None:
    child = start(f"open({str(tmp_path / 'starts')!r}, 'a').write('x'); import sys; sys.exit(2)")
    await asyncio.wait_for(child.failed, 30)
    assert (tmp_path / "starts").read_text() == "x"


async def test_one_that_dies_at_once_after_being_ready_is_tried_ever_more_slowly(start: Start) -> None:
    child = start(READY)
    moments: list[float] = []
    for number in range(1, 5):
        await _until(lambda number=number: child.entry.restarts >= number)  # type: ignore[misc]
        moments.append(time.monotonic())
    waits = [later - earlier for earlier, later in pairwise(moments)]
    assert waits[-1] > waits[0]
    assert not child.failed.done()


async def test_stopping_ends_one_that_ignores_sigterm_with_all_it_started(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("slicewise.launcher.child.STOP_TIMEOUT_S", 0.5)
    pids = tmp_path / "pids"
    child = start(
        f"""
        import os, signal, subprocess, sys, time
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        helper = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        open({str(pids)!r}, "w").write(str(helper.pid))
        print('{{"ready": true}}', flush=True)
        time.sleep(600)
        """
    )
    await _until(lambda: child.entry.state == board.READY)
    pid, helper = child.entry.pid, int(pids.read_text())
    await child.stop()
    await _until(lambda: not _alive(pid) and not _alive(helper))
    assert child.entry.state in (board.READY, board.STOPPED)


async def test_megabytes_on_stdout_do_not_block_a_service(start: Start, tmp_path: Path) -> None:
    done = tmp_path / "done"
    child = start(READY + f"print('x' * 5_000_000, flush=True); open({str(done)!r}, 'w'); import time; time.sleep(600)")
    await _until(done.exists)
    assert child.entry.state == board.READY


LEAVER = """
import os, sys, time
left = sys.argv[1]
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        with open(left + ".new", "w") as file:
            file.write(str(os.getpid()))
        os.rename(left + ".new", left)
        time.sleep(600)
    os._exit(0)
os.wait()
while not os.path.exists(left):
    time.sleep(0.01)
print('{"ready": true}', flush=True)
time.sleep(600)
"""

# A launcher in a process of its own: it becomes the reaper of all it starts, which a test runner must not.
LAUNCHER = """
import asyncio, sys
from pathlib import Path
from slicewise.launcher.child import Child
from slicewise.launcher.orphans import Orphans
from slicewise.launcher.services import Service

async def main(program, left, log, then):
    orphans = Orphans()
    orphans.adopt()
    child = Child(Service("x", (sys.executable, program, left)), Path(log), lambda: None, orphans)
    task = asyncio.create_task(child.run())
    await child.ready.wait()
    print(child.entry.pid, flush=True)
    if then == "stop":
        await child.stop()
        await task
        await orphans.end_all()
    await task

asyncio.run(main(*sys.argv[1:]))
"""


def _launch(folder: Path, then: str) -> subprocess.Popen[str]:
    (folder / "leaver.py").write_text(LEAVER)
    (folder / "launcher.py").write_text(LAUNCHER)
    arguments = [str(folder / "leaver.py"), str(folder / "left"), str(folder / "x.log"), then]
    return subprocess.Popen([sys.executable, folder / "launcher.py", *arguments], stdout=subprocess.PIPE, text=True)


def test_what_a_service_leaves_behind_is_adopted_and_ended(tmp_path: Path) -> None:
    with _launch(tmp_path, "stop") as launcher:
        assert launcher.wait(60) == 0
    assert not _alive(int((tmp_path / "left").read_text()))


def test_a_killed_launcher_takes_its_services_with_it(tmp_path: Path) -> None:
    with _launch(tmp_path, "stay") as launcher:
        assert launcher.stdout
        pid = int(launcher.stdout.readline())
        assert _alive(pid)
        launcher.kill()
    deadline = time.monotonic() + 20
    while _alive(pid):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    # What had detached itself is out of the kernel's sight as well; here the test cleans up after it.
    with contextlib.suppress(ProcessLookupError):
        os.kill(int((tmp_path / "left").read_text()), signal.SIGKILL)
