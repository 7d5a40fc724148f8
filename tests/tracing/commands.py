"""`slicewise ...` in this process, and a file of models for it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from simulator.scenario import Scenario, read_scenario
from slicewise.cli import main

LINE = {"fixed": 0.1, "per_item": 0.01}
MODELS = {
    "slices": [{"id": "g0", "gpcs": 1, "memory_gb": 4}],
    "models": {name: {"memory_gb": 1 + 0.1 * n, "load_s": 1, "infer_s": LINE} for n, name in enumerate("abc")},
}


class Commands:
    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self._capsys, self._monkeypatch = folder, capsys, monkeypatch
        self.models = self.file("models.yaml", json.dumps(MODELS))

    def file(self, name: str, content: str | bytes) -> Path:
        path = self.folder / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    def __call__(self, *arguments: Any) -> tuple[int, str, str]:
        """(exit status, stdout, stderr)"""
        self._monkeypatch.setattr(sys, "argv", ["slicewise", *map(str, arguments)])
        status = 0
        try:
            main()
        except SystemExit as end:
            status = int(end.code or 0)
        said = self._capsys.readouterr()
        return status, said.out, said.err

    def trace(self, *arguments: Any) -> Scenario:
        out = self.folder / "made.yaml"
        status, said, err = self("trace", *arguments, "--models", self.models, "-o", out)
        assert (status, said) == (0, ""), err
        return read_scenario(out)

    def refused(self, *arguments: Any) -> str:
        status, out, err = self("trace", "--models", self.models, *arguments)
        assert (status, out) == (2, "")
        assert err.count("\n") == 1
        return err


@pytest.fixture
def commands(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Commands:
    return Commands(tmp_path, capsys, monkeypatch)
