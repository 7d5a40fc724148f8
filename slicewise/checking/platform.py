"""A platform of its own for one check: `slicewise up` in a temporary folder, gone afterwards whatever happens.

It is the platform that serves functions elsewhere, with one difference: its brokers report model calls.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from proto.types.errors import SlicewiseError
from proto.wire.settings import write_yaml
from slicewise.checking.images import remove
from slicewise.client import logins
from slicewise.client.http import Gateway
from slicewise.launcher import board, issuing, logs
from slicewise.launcher.layout import Layout

READY_TIMEOUT_S = 180.0
SLACK_S = 5.0  # of the way beside the handler; the check itself waits longer still
# Four groups of services with seven seconds each at the very worst, as `slicewise down` has it.
STOP_TIMEOUT_S = 35.0
KILLED_TIMEOUT_S = 5.0
_PAUSE_S = 0.05
_PR_SET_PDEATHSIG = 1
_LOG = "launcher"


class PrivatePlatform:
    """`with PrivatePlatform(slices, 60.0) as platform:`, then `wait_ready`: what needs no platform runs meanwhile."""

    def __init__(self, slices: str, timeout_s: float, images: Path | None = None) -> None:
        """`timeout_s`: the limit of one invocation; `images`: where bundles and environments lie, if not in it."""
        folder = Path(tempfile.mkdtemp(prefix="slicewise-check-"))
        folder.chmod(0o711)  # functions run as users of their own and pass through
        self.layout = Layout(folder)
        self.images = images or self.layout.images
        self.slices = slices
        self._timeout_s = timeout_s
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> PrivatePlatform:
        try:
            self.layout.make()
            self._start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _start(self) -> None:
        settings = self.layout.root / "check.yaml"
        # A little more than the handler has, so that it is the handler's own limit that is met and named.
        gateway = {"upstream_timeout": self._timeout_s + SLACK_S, "write_timeout": self._timeout_s + SLACK_S}
        images = {"images_dir": str(self.images)}
        host = {**images, "report_calls": True}
        write_yaml(settings, {"host_service": host, "gpu_manager": images, "gateway": gateway})
        command = [sys.executable, "-m", "slicewise.cli", "up", "--port", "0", "--metrics-port", "0", "--no-login"]
        command += ["--slices", self.slices, "--config", str(settings), "--state-dir", str(self.layout.root)]
        log = os.open(self.layout.log(_LOG), os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=_environment(os.environ),
                start_new_session=True,  # a Ctrl-C is ours: it takes down in order what we have started
                preexec_fn=_end_with_us,
            )
        finally:
            os.close(log)

    def wait_ready(self) -> None:
        """Return when it serves; raises SlicewiseError `unavailable` with the launcher's last words."""
        assert self._process is not None
        deadline = time.monotonic() + READY_TIMEOUT_S
        while True:
            document = board.read(self.layout.board)
            if document.get("phase") == "ready":
                break
            if self._process.poll() is not None:
                words = " ".join(logs.tail(self.layout.log(_LOG), 1)).removeprefix("slicewise: ")
                raise SlicewiseError("unavailable", f"The check's own platform did not start: {words or 'it ended.'}")
            if time.monotonic() > deadline:
                text = f"The check's own platform was not ready within {READY_TIMEOUT_S:g} s."
                raise SlicewiseError("unavailable", text)
            time.sleep(_PAUSE_S)
        self.addresses: dict[str, int] = document["addresses"]
        self.gateway = Gateway(document["url"], logins.basic(issuing.USER, issuing.read(self.layout.password)))

    def node_status(self) -> dict[str, Any]:
        """What the node's GPU manager says of its slices and workers."""
        import asyncio
        import json

        from proto.wire import peers
        from proto.wire.generated import slicewise_pb2 as pb
        from proto.wire.generated import slicewise_pb2_grpc as rpc

        credential = issuing.read(issuing.credential(self.layout, "cli"))

        async def ask() -> str:
            async with peers.channel(f"127.0.0.1:{self.addresses['gpu_manager-local']}") as channel:
                stub = rpc.GpuManagerStub(channel)
                answer = await stub.GetStatus(
                    pb.Empty(), metadata=peers.metadata(credential), timeout=peers.CALL_TIMEOUT_S
                )
                return str(answer.text)

        document: dict[str, Any] = json.loads(asyncio.run(ask()))
        return document

    def close(self) -> None:
        """Stop everything in order and remove the folder."""
        # A second Ctrl-C must not leave the platform half stopped: its end is bounded anyway.
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            process = self._process
            if process is not None and process.poll() is None:
                process.terminate()
                try:
                    process.wait(STOP_TIMEOUT_S)
                except subprocess.TimeoutExpired:
                    process.kill()  # its children carry PDEATHSIG
                    process.wait(KILLED_TIMEOUT_S)
            remove(self.layout.root)
        finally:
            signal.signal(signal.SIGINT, before)


def _environment(given: Mapping[str, str]) -> dict[str, str]:
    """Nothing that is meant for the user's own platform reaches this one."""
    return {key: value for key, value in given.items() if not key.startswith("SLICEWISE_")}


def _end_with_us() -> None:
    """In the child: SIGTERM when we die, so that nothing of a check that was killed stays."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
