"""The whole platform comes up, tells the truth, survives, and leaves nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from tests.platform_rig import SLICEWISE, Platform

pytestmark = pytest.mark.live

Start = Callable[..., Platform]

ECHO = """
def handle(event, context):
    return {"statusCode": 200, "body": event.body}
"""
DOUBLE = """
import torch

class Double(torch.nn.Module):
    def forward(self, numbers):
        return numbers * 2

model = Double().to("cuda")

def handle(event, context):
    return {"statusCode": 200, "body": model(torch.tensor([float(word) for word in event.body.split()])).tolist()}
"""


def _build(platform: Platform, folder: Path, name: str, handler: str) -> None:
    (folder / name).mkdir()
    (folder / name / "handler.py").write_text(handler)
    platform.cli("build", str(folder / name), "-t", name)


@pytest.mark.timeout(300)
def test_functions_secrets_and_policy_survive_a_restart_of_everything(start_platform: Start, tmp_path: Path) -> None:
    platform = start_platform("--slices", "1x1g:1GiB")
    status = platform.status()
    assert status["state"] == "ready"
    assert [item["name"] for item in status["processes"]] == [
        "etcd", "cache_manager", "scheduler", "host-local", "gpu_manager-local", "gateway",
    ]  # fmt: skip
    assert all(psutil.pid_exists(item["pid"]) and item["restarts"] == 0 for item in status["processes"])
    _build(platform, tmp_path, "echo", ECHO)
    _build(platform, tmp_path, "double", DOUBLE)
    platform.cli("secret", "create", "token", stdin=b"s3cret")
    platform.cli("deploy", "--image", "echo", "--name", "echo", "--secret", "token", "--wait", "60")
    platform.cli(
        "deploy", "--image", "double", "--name", "double", "--label", "com.slicewise.gpu=true", "--wait", "120"
    )
    assert platform.cli("invoke", "echo", stdin=b"fox").stdout == "fox"
    told = platform.cli("invoke", "double", "-d", "1 2.5", "-v")
    assert told.stdout == "[2.0, 5.0]"
    assert "cache miss" in told.stderr
    assert "slice local-s0" in told.stderr
    assert "cache hit" in platform.cli("invoke", "double", "-d", "3", "-v").stderr
    assert "double.openfaas-fn" in platform.cli("models").stdout
    assert "local-s0" in platform.cli("models").stdout
    platform.cli("policy", "set", "lalb", "--o3-limit", "7")

    address = platform.board["addresses"]["scheduler"]
    platform.down()
    assert platform.status()["state"] == "down"
    platform.check_nothing_left()
    platform.up()

    assert platform.board["addresses"]["scheduler"] == address
    platform.wait_ready("echo", "double")
    assert platform.call("echo", b"again").text == "again"
    assert platform.call("double", b"4").json() == [8.0]
    assert platform.cli("secret", "list").stdout == "token\n"
    assert platform.system("/system/scheduler/policy").json() == {"name": "lalb", "o3_limit": 7}
    assert platform.cli("list", "-q").stdout == "double\necho\n"
    platform.cli("remove", "echo")
    assert platform.cli("describe", "echo", check=False).returncode == 1


@pytest.mark.timeout(300)
def test_a_killed_service_is_back_and_status_tells_it(start_platform: Start) -> None:
    platform = start_platform("--slices", "1x1g:512MiB")
    for name in ("gateway", "scheduler", "cache_manager", "gpu_manager-local", "host-local", "etcd"):
        pid = platform.pid(name)
        os.kill(pid, signal.SIGKILL)
        platform.wait(lambda name=name, pid=pid: platform.pid(name) not in (0, pid), f"{name} is not started again")  # type: ignore[misc]
        platform.wait(lambda: platform.status()["state"] == "ready", f"not ready after {name} was killed")
        entry = next(item for item in platform.status()["processes"] if item["name"] == name)
        assert entry["restarts"] == 1
        assert "SIGKILL" in entry["error"]


@pytest.mark.timeout(300)
def test_a_second_launcher_is_refused_by_folder_and_by_port(start_platform: Start, tmp_path: Path) -> None:
    platform = start_platform("--slices", "1x1g:512MiB")
    for more in ((), ("--detach",)):
        done = platform.cli("up", "--port", "0", *more, check=False)
        assert done.returncode == 1
        assert f"already running on {platform.state_dir}" in done.stderr
        port = platform.url.rpartition(":")[2]
        done = platform.cli("up", "--state-dir", str(tmp_path / "other"), "--port", port, *more, check=False)
        assert done.returncode == 1
        assert f"127.0.0.1:{port} is in use" in done.stderr
    assert platform.status()["state"] == "ready"


@pytest.mark.timeout(300)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_a_launcher_that_is_told_to_end_or_killed_leaves_nothing(start_platform: Start, number: signal.Signals) -> None:
    platform = start_platform("--slices", "1x1g:512MiB")
    platform.note_processes()
    launcher = psutil.Process(platform.board["pid"])
    launcher.send_signal(number)
    psutil.wait_procs([launcher], timeout=60)
    platform.wait(lambda: platform.status()["state"] == "down", "status does not say down")
    platform.wait(lambda: not any(process.is_running() for process in platform.processes()), "processes live on")
    platform.check_nothing_left()


@pytest.mark.timeout(300)
def test_in_the_foreground_it_tells_where_it_is_and_ends_with_sigint(tmp_path: Path) -> None:
    platform = Platform()
    with subprocess.Popen(
        [SLICEWISE, "up", "--port", "0", "--metrics-port", "0", "--slices", "1x1g:512MiB"],
        env=platform.env(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as launcher:
        assert launcher.stdout
        told = [launcher.stdout.readline() for _ in range(4)]
        assert told[0] == "Slicewise is ready.\n"
        assert told[1].split() == ["gateway", platform.url]
        assert told[2].split() == ["user", "admin"]
        assert told[3].split() == ["password", "in", str(platform.state_dir / "secrets" / "basic-auth-password")]
        platform.note_processes()
        launcher.send_signal(signal.SIGINT)
        assert launcher.wait(60) == 0
    platform.remove()


@pytest.mark.timeout(300)
def test_two_agents_are_two_nodes(start_platform: Start) -> None:
    platform = start_platform("--agents", "2", "--slices", "1x1g:512MiB")
    platform.wait(
        lambda: [item["id"] for item in platform.status()["slices"]] == ["a-s0", "b-s0"], "the slices of both nodes"
    )
    names = [item["name"] for item in platform.status()["processes"]]
    assert {"host-a", "gpu_manager-a", "host-b", "gpu_manager-b"} <= set(names)
