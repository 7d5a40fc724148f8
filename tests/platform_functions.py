"""What live tests do with functions on a running platform: build, deploy, remove, watch what they cost.

Causes are files: a handler makes one when it has come somewhere and waits for another before it goes on.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

from tests.platform_rig import Platform

HANG_S = 90.0


def deploy(platform: Platform, name: str, image: str, *, gpu: bool = False, **fields: Any) -> None:
    """Deploy and wait until it is ready; `env` and the like as in the deploy request."""
    request = {"service": name, "image": image, **fields}
    if gpu:
        request["labels"] = {"com.slicewise.gpu": "true", **request.get("labels", {})}
    answer = platform.system("/system/functions", "POST", request)
    assert answer.status == 202, answer.text
    platform.wait_ready(name)


def remove(platform: Platform, *names: str) -> None:
    """Delete functions and wait until nothing of them is left."""
    for name in names:
        platform.system("/system/functions", "DELETE", {"functionName": name})
    for name in names:
        platform.wait(lambda name=name: platform.system(f"/system/function/{name}").status == 404, f"{name} stays")  # type: ignore[misc]


def scrape(platform: Platform, service: str = "") -> dict[str, float]:
    """What a service's /metrics says, as `name{labels}` -> value; the gateway's without a name."""
    port = platform.board["addresses"][f"{service}-metrics" if service else "metrics"]
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=HANG_S) as answer:
        lines = [line for line in answer.read().decode().splitlines() if line and not line.startswith("#")]
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}


def waiting(platform: Platform, slice_id: str = "local-s0") -> float:
    """Calls that wait for a slice: unbound, or bound behind a busy one."""
    found = scrape(platform, "scheduler")
    return found["slicewise_scheduler_queue_depth"] + found[f'slicewise_slice_local_queue{{slice="{slice_id}"}}']


def cached(platform: Platform, index: int = 0) -> list[str]:
    """Names of the functions whose workers a slice holds, least recently used first."""
    workers = platform.system("/system/scheduler/state").json()["slices"][index]["workers"]
    return [worker["worker"].partition(".")[0] for worker in workers]


@contextmanager
def gates() -> Iterator[Gates]:
    """A folder for gates; it lies where functions and workers, whose /tmp and /var/tmp are their own, can reach it."""
    folder = Path(tempfile.mkdtemp(prefix="slicewise-gates-", dir="/var/lib" if os.geteuid() == 0 else None))
    folder.chmod(0o777)
    opened = Gates(folder)
    try:
        yield opened
    finally:
        opened.open_all()
        shutil.rmtree(folder, ignore_errors=True)


class Gates:
    """Files by name."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._asked: list[Path] = []

    def path(self, name: str) -> str:
        """Where a gate's file will be."""
        self._asked.append(self._folder / name)
        return str(self._folder / name)

    def open(self, name: str) -> None:
        """Let those pass who wait for it."""
        (self._folder / name).touch()

    def open_all(self) -> None:
        """Nobody is left waiting when a test ends early."""
        for path in self._asked:
            path.touch()

    def wait(self, name: str) -> None:
        """Until somebody has made it."""
        deadline = time.monotonic() + HANG_S
        while not (self._folder / name).exists():
            assert time.monotonic() < deadline, f"{name} never came"
            time.sleep(0.005)


def worker_bytes(platform: Platform) -> int | None:
    """What all workers hold at this moment; None when one of them ended while it was looked at.

    Anonymous pages of their own, and in full what they map of model files and shared memory.
    """
    workers = [process for process in platform.processes() if process_name(process).startswith("sw:")]
    total = 0
    try:
        for process in workers:
            total += _held(Path(f"/proc/{process.pid}/smaps").read_text())
    except OSError:
        return None
    return (
        total if all(process.is_running() and process_name(process).startswith("sw:") for process in workers) else None
    )


def process_name(process: psutil.Process) -> str:
    """Its name, "" once it has ended."""
    try:
        return process.name() if process.status() != psutil.STATUS_ZOMBIE else ""
    except psutil.Error:
        return ""


def _held(smaps: str) -> int:
    total = dirty = 0
    shared = False
    for line in smaps.splitlines():
        word, _, rest = line.partition(" ")
        if not word.endswith(":"):
            shared = "/models/" in rest or "/memfd:" in rest
        elif word == "Rss:" and shared:
            total += int(rest.split()[0])
        elif word == "Private_Dirty:":
            dirty = int(rest.split()[0])
        elif word == "Anonymous:" and not shared:
            total += min(dirty, int(rest.split()[0]))
    return total * 1024
