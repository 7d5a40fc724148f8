"""A real gateway process over a real etcd, with the stand-ins of the two services it talks to."""

from __future__ import annotations

import base64
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

from cryptography.fernet import Fernet

from datastore import server as etcd_server
from proto.wire.credentials import SigningKey, Trust
from tests.gateway_rig.loop_thread import LoopThread
from tests.gateway_rig.stand_in_host import StandInHost
from tests.gateway_rig.stand_in_scheduler import StandInScheduler

USER, PASSWORD = "admin", "correct horse"
HANG_S = 30.0  # a guard against hanging, never a measure


@dataclass
class Reply:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def eventually(holds: Callable[[], Any], what: str = "") -> Any:
    deadline = time.monotonic() + HANG_S
    while time.monotonic() < deadline:
        found = holds()
        if found:
            return found
        time.sleep(0.01)
    raise AssertionError(f"this never came true: {what or holds}")


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        return int(sock.getsockname()[1])


class Rig:
    def __init__(self, folder: Path, **settings: Any) -> None:
        self.folder = folder
        self._settings = settings
        self.loop = LoopThread()
        keys = {issuer: SigningKey.generate(issuer) for issuer in ("platform", "replicas", "bindings")}
        trust = Trust({issuer: key.public_hex() for issuer, key in keys.items()})
        (folder / "trust.json").write_text(json.dumps({issuer: key.public_hex() for issuer, key in keys.items()}))
        keys["replicas"].save(folder / "replicas.key")
        (folder / "credential").write_text(keys["platform"].sign({"sub": "service:gateway"}))
        (folder / "secrets.key").write_bytes(Fernet.generate_key())
        (folder / "basic-auth-user").write_text(USER + "\n")
        (folder / "basic-auth-password").write_text(PASSWORD + "\n")
        (folder / "state").mkdir()
        self.trust = trust
        self.host = StandInHost(self.loop, trust)
        self.scheduler = StandInScheduler(self.loop, trust, keys["bindings"])
        self.host_address = ""  # of a real host, instead of the stand-in
        self.second = StandInHost(self.loop, trust)
        self.hosts = 1
        self.etcd_address = ""
        self._etcd: subprocess.Popen[bytes] | None = None
        self._gateway: subprocess.Popen[str] | None = None
        self.http = ""
        self.metrics = ""

    def start(self) -> None:
        client = free_port()
        self.etcd_address = f"127.0.0.1:{client}"
        with open(self.folder / "etcd.log", "ab") as log:
            command = etcd_server.command(self.folder / "etcd", client)
            environment = etcd_server.environment()
            self._etcd = subprocess.Popen(command, cwd=self.folder, env=environment, stdout=log, stderr=log)
        self.host.start()
        if self.hosts > 1:
            self.second.start()
        self.scheduler.start()
        self.start_gateway()

    def start_gateway(self) -> None:
        settings = {
            "listen_http": self.http or "127.0.0.1:0",
            "metrics_listen": self.metrics or "127.0.0.1:0",
            "hosts": [f"node-1={self.host_address or self.host.address}"]
            + [f"node-2={self.second.address}"] * (self.hosts - 1),
            "scheduler": self.scheduler.address,
            "unreachable_timeout": "500ms",
            "etcd": self.etcd_address,
            "etcd_user": "",
            "state_dir": str(self.folder / "state"),
            "trust": str(self.folder / "trust.json"),
            "credential": str(self.folder / "credential"),
            "replicas_key": str(self.folder / "replicas.key"),
            "secrets_key": str(self.folder / "secrets.key"),
            "secret_mount_path": str(self.folder),
            **self._settings,
        }
        (self.folder / "gateway.yaml").write_text(json.dumps(settings))
        command = [sys.executable, "-m", "gateway.service", "--config", str(self.folder / "gateway.yaml")]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("SLICEWISE_")}
        with open(self.folder / "gateway.log", "ab") as log:
            self._gateway = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, env=environment)
        assert self._gateway.stdout is not None
        line = self._gateway.stdout.readline()
        assert line, (self.folder / "gateway.log").read_text()
        ready = json.loads(line)
        assert ready["ready"] is True
        assert ready["service"] == "gateway"
        self.http, self.metrics = ready["http"], ready["metrics"]

    def stop_gateway(self, kill: bool = False) -> int:
        assert self._gateway is not None
        assert self._gateway.stdout is not None
        self._gateway.send_signal(signal.SIGKILL if kill else signal.SIGTERM)
        status = self._gateway.wait(HANG_S)
        self._gateway.stdout.close()
        self._gateway = None
        return status

    @property
    def pid(self) -> int:
        assert self._gateway is not None
        return self._gateway.pid

    def pause_etcd(self) -> None:
        assert self._etcd is not None
        self._etcd.send_signal(signal.SIGSTOP)

    def resume_etcd(self) -> None:
        assert self._etcd is not None
        self._etcd.send_signal(signal.SIGCONT)

    def close(self) -> None:
        if self._gateway is not None:
            self.stop_gateway()
        for host in (self.host, self.second):
            host.forget()
            host.stop()
        self.scheduler.stop()
        if self._etcd is not None:
            self._etcd.kill()
            self._etcd.wait()
        self.loop.close()

    # talking to it

    def connection(self) -> HTTPConnection:
        host, _, port = self.http.partition(":")
        return HTTPConnection(host, int(port), timeout=HANG_S)

    def ask(
        self, method: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None, where: str = ""
    ) -> Reply:
        host, _, port = (where or self.http).partition(":")
        connection = HTTPConnection(host, int(port), timeout=HANG_S)
        try:
            connection.request(method, path, body, headers or {})
            response = connection.getresponse()
            return Reply(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())
        finally:
            connection.close()

    def manage(self, method: str, path: str, document: Any = None, password: str = PASSWORD) -> Reply:
        token = base64.b64encode(f"{USER}:{password}".encode()).decode()
        body = None if document is None else json.dumps(document).encode()
        return self.ask(method, path, body, {"Authorization": f"Basic {token}"})

    def deploy(self, name: str, image: str = "plain:1", ready: bool = True, **fields: Any) -> None:
        reply = self.manage("POST", "/system/functions", {"service": name, "image": image, **fields})
        assert reply.status == 202, reply.text
        if ready:
            eventually(lambda: self.describe(name).get("availableReplicas"), f"{name} is ready")

    def describe(self, name: str) -> dict[str, Any]:
        reply = self.manage("GET", f"/system/function/{name}")
        return dict(reply.json) if reply.status == 200 else {}

    def metric(self, name: str, **labels: str) -> float:
        text = self.ask("GET", "/metrics", where=self.metrics).text
        total = 0.0
        for line in text.splitlines():
            series, _, value = line.rpartition(" ")
            family, _, rest = series.partition("{")
            if family == name and all(f'{label}="{wanted}"' in rest for label, wanted in labels.items()):
                total += float(value)
        return total
