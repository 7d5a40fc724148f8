"""The end of the launcher is the end of everything it has started, whatever is under way."""

from __future__ import annotations

import signal
from collections.abc import Callable
from http.client import HTTPException

import psutil
import pytest

from tests.platform_rig import Platform
from tests.recovering.scene import Scene

pytestmark = [pytest.mark.live, pytest.mark.timeout(180)]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_with_calls_workers_and_forks_of_handlers_nothing_is_left(
    start_platform: Callable[..., Platform], number: signal.Signals
) -> None:
    platform = start_platform("--slices", "1x1g:80MiB")
    scene = Scene(platform)
    scene.deploy("traced")
    scene.deploy("unruly", gpu=False)
    others: list[psutil.Process] = []
    if (
        number is signal.SIGTERM
    ):  # what a handler detaches is ended by the launcher alone, at the latest when it starts again
        others.append(psutil.Process(int(scene.call("unruly", b"fork").text)))
    name, held = scene.hold()
    waits = scene.begin("traced")
    scene.waiting(1)
    ((pid, _),) = scene.runs(name)
    others.append(psutil.Process(pid))
    platform.note_processes()
    launcher = psutil.Process(platform.board["pid"])
    launcher.send_signal(number)
    psutil.wait_procs([launcher], timeout=90)
    platform.wait(lambda: not any(other.is_running() for other in others), "processes live on")
    platform.wait(lambda: platform.status()["state"] == "down", "status does not say down")
    platform.check_nothing_left()
    for answer in (held, waits):  # told or cut off, and never left hanging
        error = answer.exception()
        if error is None:
            assert answer.result().status in (502, 503), answer.result()
        else:
            assert isinstance(error, (OSError, HTTPException)), error
    scene.close()
