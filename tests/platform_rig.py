"""A whole platform for live tests, brought up by the command a user has, on free ports, in a folder of its own.

Its end is a test of its own: whatever a process or a port is left fails the run.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

SLICEWISE = Path(sys.executable).parent / "slicewise"
# Guards against a hang only; nothing is asserted by them.
COMMAND_TIMEOUT_S = 240.0
CALL_TIMEOUT_S = 60.0


@dataclass(frozen=True)
class Reply:
    """An HTTP answer, of whatever status."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def text(self) -> str:
        """The body as text."""
        return self.body.decode()

    def json(self) -> Any:
        """The decoded body."""
        return json.loads(self.body)


@dataclass
class Platform:
    """One platform; `up` and `down` may be called again and again."""

    flags: tuple[str, ...] = ("--slices", "2x1g:1GiB")
    environment: dict[str, str] = field(default_factory=dict)
    state_dir: Path = field(init=False)

    def __post_init__(self) -> None:
        self.state_dir = Path(tempfile.mkdtemp(prefix="slicewise-test-"))
        self.state_dir.chmod(0o711)  # functions run as users of their own and pass through
        self._seen: set[tuple[int, float]] = set()

    # ------------------------------------------------------------------ commands

    def cli(self, *arguments: str, stdin: bytes = b"", check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run one `slicewise` command; with `check` a failure raises with what it printed."""
        done = subprocess.run(
            [SLICEWISE, *arguments],
            env=self.env(),
            input=stdin,
            capture_output=True,
            timeout=COMMAND_TIMEOUT_S,
            check=False,
        )
        result = subprocess.CompletedProcess(
            done.args, done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")
        )
        if check and result.returncode:
            raise AssertionError(
                f"slicewise {' '.join(arguments)} ended with {result.returncode}:\n{result.stdout}{result.stderr}"
            )
        return result

    def env(self) -> dict[str, str]:
        """The environment of those commands: this platform's folder, gateway and logins."""
        own = {"SLICEWISE_STATE_DIR": str(self.state_dir), "OPENFAAS_CONFIG": str(self.state_dir / "login")}
        with contextlib.suppress(KeyError):
            own["OPENFAAS_URL"] = self.url
        return {**os.environ, **self.environment, **own}

    def up(self, *more: str) -> None:
        """Bring it up and return when it is ready."""
        try:
            self.cli("up", "--detach", "--port", "0", "--metrics-port", "0", *self.flags, *more)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.log_tails()}") from None

    def down(self) -> None:
        """Take it down; afterwards `check_nothing_left` may be asked."""
        self.note_processes()
        self.cli("down")

    def remove(self) -> None:
        """Down, nothing left, folder gone."""
        try:
            self.down()
            self.check_nothing_left()
        finally:
            shutil.rmtree(self.state_dir, ignore_errors=True)

    # ------------------------------------------------------------------ what is there

    @property
    def board(self) -> dict[str, Any]:
        """launcher.json; empty before the first start."""
        try:
            document = json.loads((self.state_dir / "launcher.json").read_text())
        except FileNotFoundError:
            return {}
        assert isinstance(document, dict)
        return document

    @property
    def url(self) -> str:
        """The gateway's URL."""
        return str(self.board["url"])

    @property
    def metrics_url(self) -> str:
        """Where Prometheus would scrape."""
        return f"http://127.0.0.1:{self.board['addresses']['metrics']}/metrics"

    @property
    def auth(self) -> tuple[str, str]:
        """User and password of the management API."""
        folder = self.state_dir / "secrets"
        return (folder / "basic-auth-user").read_text().strip(), (folder / "basic-auth-password").read_text().strip()

    @property
    def authorization(self) -> str:
        """The same as a header."""
        return "Basic " + base64.b64encode(":".join(self.auth).encode()).decode()

    def status(self) -> dict[str, Any]:
        """What `slicewise status --json` says."""
        document = json.loads(self.cli("status", "--json", check=False).stdout)
        assert isinstance(document, dict)
        return document

    def pid(self, name: str) -> int:
        """The pid of a process by its name (`scheduler`, `gpu_manager-local` ...)."""
        return int(self.board["processes"][name]["pid"])

    def log_tails(self, characters: int = 2000) -> str:
        """The end of every log, for a failing test."""
        return "\n".join(
            f"--- {file.name}\n{file.read_text(errors='replace')[-characters:]}"
            for file in sorted((self.state_dir / "logs").glob("*.log"))
        )

    # ------------------------------------------------------------------ HTTP

    def request(
        self,
        path: str,
        method: str = "GET",
        body: bytes | None = None,
        headers: dict[str, str] | None = None,
        timeout_s: float = CALL_TIMEOUT_S,
    ) -> Reply:
        """Any request to the gateway; an error status is an answer as well."""
        request = urllib.request.Request(self.url + path, data=body, method=method, headers=headers or {})
        try:
            with urllib.request.urlopen(request, timeout=timeout_s) as answer:
                return Reply(answer.status, dict(answer.headers.items()), answer.read())
        except urllib.error.HTTPError as error:
            with error:
                return Reply(error.code, dict(error.headers.items()), error.read())

    def system(self, path: str, method: str = "GET", body: Any = None) -> Reply:
        """A management call with the right password."""
        data = None if body is None else json.dumps(body).encode()
        return self.request(path, method, data, {"Authorization": self.authorization})

    def call(
        self, function: str, body: bytes = b"", headers: dict[str, str] | None = None, timeout_s: float = CALL_TIMEOUT_S
    ) -> Reply:
        """POST to a function; `function` may carry path and query."""
        return self.request(f"/function/{function}", "POST", body, headers, timeout_s)

    def wait_ready(self, *functions: str, timeout_s: float = 120.0) -> None:
        """Until each function has an available replica."""
        deadline = time.monotonic() + timeout_s
        for name in functions:
            status = self.system(f"/system/function/{name}")
            while status.status != 200 or status.json().get("availableReplicas", 0) < 1:
                if time.monotonic() > deadline:
                    raise AssertionError(f"{name} is not ready: {status.status} {status.text}\n{self.log_tails()}")
                time.sleep(0.1)
                status = self.system(f"/system/function/{name}")

    def wait(self, condition: Callable[[], bool], what: str, timeout_s: float = 60.0) -> None:
        """Until `condition()`; fails with `what` and the logs' ends."""
        deadline = time.monotonic() + timeout_s
        while not condition():
            if time.monotonic() > deadline:
                raise AssertionError(f"{what}\n{self.log_tails()}")
            time.sleep(0.05)

    # ------------------------------------------------------------------ leaks

    def processes(self) -> list[psutil.Process]:
        """Every process of the platform, the launcher first; empty when it is down."""
        try:
            launcher = psutil.Process(int(self.board["pid"]))
            return [launcher, *launcher.children(recursive=True)]
        except (KeyError, psutil.NoSuchProcess):
            return []

    def note_processes(self) -> None:
        """Remember who runs now, for `check_nothing_left`."""
        for process in self.processes():
            with contextlib.suppress(psutil.NoSuchProcess):
                self._seen.add((process.pid, process.create_time()))

    def check_nothing_left(self) -> None:
        """Fails when a process that was seen lives on, or a port is still taken."""
        left = list(_living(self._seen))
        mark = str(self.state_dir)
        for process in psutil.process_iter(["cmdline"]):
            if any(mark in argument for argument in process.info["cmdline"] or []):
                left.append(process)
        assert not left, "left over: " + "; ".join(_describe(process) for process in left)
        taken = [f"{name} ({port})" for name, port in self.board.get("addresses", {}).items() if not _is_free(port)]
        assert not taken, f"ports still taken: {', '.join(taken)}"


def _living(seen: set[tuple[int, float]]) -> Iterator[psutil.Process]:
    for pid, created in seen:
        with contextlib.suppress(psutil.NoSuchProcess):
            process = psutil.Process(pid)
            if process.create_time() == created and process.status() != psutil.STATUS_ZOMBIE:
                yield process


def _describe(process: psutil.Process) -> str:
    try:
        return f"{process.pid} {' '.join(process.cmdline()) or process.name()}"
    except psutil.Error:
        return f"{process.pid} (ended meanwhile)"


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
