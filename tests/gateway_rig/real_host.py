"""The real function host beside a real gateway: functions are forked processes behind real brokers."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from pathlib import Path

from functions.service import bundles
from tests.gateway_rig.rig import HANG_S, Rig


class RealHost:
    """Started before the gateway; the rig's stand-in is then not told of anything."""

    def __init__(self, rig: Rig) -> None:
        self._folder = rig.folder / "host"
        self._images = self._folder / "images"
        self._trust = rig.folder / "trust.json"
        self._process: subprocess.Popen[str] | None = None
        (self._folder / "state").mkdir(parents=True)
        self._images.mkdir()

    def start(self) -> str:
        """Its address."""
        flags = {"listen": "127.0.0.1:0", "state_dir": self._folder / "state", "images_dir": self._images}
        flags |= {"trust": self._trust, "credential": "/dev/null"}
        words = [word for key, value in flags.items() for word in (f"--{key}", str(value))]
        with open(self._folder / "host.log", "ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "functions.service", *words], stdout=subprocess.PIPE, stderr=log, text=True
            )
        assert self._process.stdout is not None
        return str(json.loads(self._process.stdout.readline())["listen"])

    def stop(self) -> None:
        if self._process is not None:
            assert self._process.stdout is not None
            self._process.terminate()
            self._process.wait(HANG_S)
            self._process.stdout.close()

    def build(self, name: str, files: dict[str, str]) -> None:
        source: Path = self._folder / "sources" / name.replace(":", "-")
        source.mkdir(parents=True)
        for path, text in files.items():
            (source / path).write_text(textwrap.dedent(text))
        bundles.build(source, name, self._images)
