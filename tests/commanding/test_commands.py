"""Logins and gateways are chosen as faas-cli chooses them; mistakes are one line and a status."""

from __future__ import annotations

import base64
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from slicewise.client import logins
from slicewise.client.http import choose_gateway
from tests.platform_rig import SLICEWISE


def _run(*arguments: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("OPENFAAS", "SLICEWISE"))}
    return subprocess.run(
        [SLICEWISE, *arguments],
        env={**inherited, "HOME": str(cwd), "SLICEWISE_STATE_DIR": str(cwd / "state"), **environment},
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        stdin=subprocess.DEVNULL,
    )


def test_the_gateway_is_flag_then_file_then_environment_then_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENFAAS_URL", "https://Env/")
    assert choose_gateway("Flag:1/", "http://file") == "http://flag:1"
    assert choose_gateway(None, "http://File:2/") == "http://file:2"
    assert choose_gateway(None) == "https://env"
    monkeypatch.delenv("OPENFAAS_URL")
    assert choose_gateway(None) == "http://127.0.0.1:8080"


def test_logins_are_faas_cli_s_and_others_stay(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("OPENFAAS_CONFIG", str(tmp_path / "conf"))
    file = tmp_path / "conf" / "config.yml"
    file.parent.mkdir()
    file.write_text("auths:\n- gateway: http://other\n  auth: oauth2\n  token: abc\n")
    assert logins.store("http://here:8080", "admin", "secret") == file
    logins.store("http://here:8080", "admin", "changed")
    assert logins.authorization("http://here:8080") == "Basic " + base64.b64encode(b"admin:changed").decode()
    assert logins.authorization("http://other") == "Bearer abc"
    assert logins.authorization("http://nobody") == ""
    assert file.stat().st_mode & 0o777 == 0o600
    logins.forget("http://here:8080")
    assert logins.authorization("http://here:8080") == ""
    assert logins.authorization("http://other") == "Bearer abc"


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (("status",), 1, ""),
        (("down",), 0, ""),
        (("deploy",), 2, "--yaml: there is no stack.yml here"),
        (("deploy", "--image", "x"), 2, "--name: is required"),
        (("deploy", "--image", "x", "--name", "y", "--env", "novalue"), 2, "--env: 'novalue'"),
        (("deploy", "-f", "none.yml"), 2, "none.yml: cannot be read"),
        (("scale", "x", "-1"), 2, "-1"),
        (("invoke",), 2, "NAME"),
        (("unknown",), 2, "unknown"),
        (("logs", "x", "--since", "soon"), 2, "--since: 'soon'"),
        (("up", "--agents", "0"), 2, "agents:"),
        (("up", "--config", "none.yaml"), 2, "none.yaml"),
        (("list", "--gateway", "http://x:notaport"), 2, "gateway:"),
    ],
)
def test_mistakes_are_one_line_on_stderr(tmp_path: Path, arguments: tuple[str, ...], status: int, words: str) -> None:
    done = _run(*arguments, cwd=tmp_path)
    assert done.returncode == status, done.stderr
    assert words in done.stderr
    assert len(done.stderr.splitlines()) <= 1


def test_a_gateway_that_is_not_there_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    done = _run("list", cwd=tmp_path, OPENFAAS_URL=f"http://127.0.0.1:{port}")
    assert done.returncode == 1
    assert f"http://127.0.0.1:{port} cannot be reached" in done.stderr


def test_commands_that_need_no_service_import_none_of_them() -> None:
    code = (
        "import sys; import slicewise.cli, slicewise.commands.invoke, slicewise.commands.functions;"
        "print([m for m in ('grpc', 'pydantic', 'rich', 'psutil', 'ruamel.yaml', 'etcd3aio') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"
