"""A platform of its own for a benchmark: brought up by the command a user has, gone afterwards."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import aiohttp
import psutil

FUNCTIONS = Path(__file__).parent / "functions"
SLICEWISE = Path(sys.executable).parent / "slicewise"


def free_port() -> int:
    """A TCP port that nobody listens on at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Stage:
    """`with Stage("--slices", "2x1g:1GiB") as stage:` gives a running platform on free ports."""

    def __init__(self, *up: str) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="slicewise-bench-"))
        self.folder.chmod(0o711)
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.up_seconds = 0.0
        self._up = up
        self._environment = {
            **os.environ,
            "SLICEWISE_STATE_DIR": str(self.folder),
            "OPENFAAS_URL": self.url,
            "OPENFAAS_CONFIG": str(self.folder / "login"),
        }

    def __enter__(self) -> Stage:
        started = time.perf_counter()
        try:
            self.slicewise("up", "--detach", "--port", str(self.port), "--metrics-port", "0", *self._up)
        except BaseException:
            self.__exit__()
            raise
        self.up_seconds = time.perf_counter() - started
        password = (self.folder / "secrets" / "basic-auth-password").read_text().strip()
        self.authorization = "Basic " + base64.b64encode(f"admin:{password}".encode()).decode()
        return self

    def __exit__(self, *_: object) -> None:
        subprocess.run([SLICEWISE, "down"], env=self._environment, check=False, stdout=subprocess.DEVNULL)
        if os.environ.get("KEEP_STAGE"):
            print(f"kept {self.folder}", file=sys.stderr)
        else:
            shutil.rmtree(self.folder, ignore_errors=True)

    def slicewise(self, *arguments: str) -> str:
        """Run one command; its output, or the error with what it printed."""
        done = subprocess.run(
            [SLICEWISE, *arguments], env=self._environment, capture_output=True, text=True, timeout=300, check=False
        )
        if done.returncode:
            raise RuntimeError(f"slicewise {' '.join(arguments)} failed:\n{done.stdout}{done.stderr}")
        return done.stdout

    def build(self, name: str) -> None:
        """Register benchmarks/functions/NAME as image NAME."""
        self.slicewise("build", str(FUNCTIONS / name), "-t", name)

    async def system(self, session: aiohttp.ClientSession, path: str, method: str = "GET", body: Any = None) -> Any:
        """A management call; the decoded JSON of its answer, None when it is empty."""
        async with session.request(
            method, self.url + path, json=body, headers={"Authorization": self.authorization}
        ) as answer:
            text = await answer.text()
            if answer.status >= 300:
                raise RuntimeError(f"{method} {path}: {answer.status} {text}")
            return json.loads(text) if text else None

    async def deploy(
        self, session: aiohttp.ClientSession, name: str, image: str, *, gpu: bool = True, **environment: str
    ) -> None:
        """Create a function; returns once it was accepted, not once it is ready."""
        await self.system(
            session,
            "/system/functions",
            "POST",
            {
                "service": name,
                "image": image,
                "envVars": environment,
                "annotations": {"com.slicewise.gpu": "true"} if gpu else {},
            },
        )

    async def wait_ready(self, session: aiohttp.ClientSession, names: list[str], timeout_s: float = 240.0) -> None:
        """Until each function has an available replica."""
        async with asyncio.timeout(timeout_s):
            for name in names:
                while (await self.system(session, f"/system/function/{name}")).get("availableReplicas", 0) < 1:
                    await asyncio.sleep(0.1)

    def processes(self) -> list[psutil.Process]:
        """Every process of this platform, the launcher first."""
        launcher = psutil.Process(json.loads((self.folder / "launcher.json").read_text())["pid"])
        return [launcher, *launcher.children(recursive=True)]
