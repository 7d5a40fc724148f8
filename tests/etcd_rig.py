"""A real etcd with authentication, which a test may stop, freeze and start again, and a store on it."""

from __future__ import annotations

import asyncio
import signal
import socket
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from datastore import administration, keys, server
from datastore.store import Store

ROOT_PASSWORD = "root-password"
PASSWORD = "user-password"


def free_ports(count: int) -> list[int]:
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [sock.getsockname()[1] for sock in held]
    for sock in held:
        sock.close()
    return ports


def _stopped(stat: Path) -> bool:
    return stat.read_text().rpartition(")")[2].split()[0] == "T"


class Etcd:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        (self._client,) = free_ports(1)
        self.address = f"127.0.0.1:{self._client}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with open(self._folder / "etcd.log", "ab") as log:
            self._process = subprocess.Popen(
                server.command(self._folder / "data", self._client),
                cwd=self._folder,
                env=server.environment(),
                stdout=log,
                stderr=log,
            )

    def ready(self) -> None:
        asyncio.run(administration.secure(self.address, ROOT_PASSWORD, PASSWORD, timeout_s=30))

    def freeze(self) -> None:
        assert self._process
        self._process.send_signal(signal.SIGSTOP)
        # Its other threads run on for a moment, and would still answer.
        tasks = Path(f"/proc/{self._process.pid}/task")
        while not all(_stopped(task / "stat") for task in tasks.iterdir()):
            time.sleep(0.001)

    def thaw(self) -> None:
        assert self._process
        self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        if self._process:
            self._process.kill()
            self._process.wait()
            self._process = None


@pytest.fixture(scope="session")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Etcd]:
    running = Etcd(tmp_path_factory.mktemp("etcd"))
    running.start()
    running.ready()
    yield running
    running.kill()


@pytest.fixture
async def store(etcd: Etcd) -> AsyncIterator[Store]:
    connected = Store(etcd.address, server.USER, PASSWORD)
    await connected.connect()
    await connected.delete_prefix(keys.ROOT)
    yield connected
    await connected.close()
