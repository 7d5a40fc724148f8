"""Runs a handler as a GPU function's process would: a fresh Python with the runtime on its path."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

from tests.running.stand_in import StandIn

RUNTIME = Path(__file__).resolve().parents[2] / "functions" / "runtime"
_SERVER = """
import json, sys, _slicewise
import {module} as handler
_slicewise.import_finished()
print("RESULT " + json.dumps(handler.answer()))
"""


def write(folder: Path, **files: str) -> None:
    """Write modules of a function's bundle."""
    for name, text in files.items():
        path = folder / (name.replace("__slash__", "/") + ".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))


def run(folder: Path, stand_in: StandIn | None, module: str = "handler", **environment: str) -> Any:
    """What `handler.answer()` gives, on a slice, or in-process when there is no stand-in.

    A module that ends in .py is run as a script, which prints `RESULT ` and JSON itself.
    """
    env = {key: value for key, value in os.environ.items() if not key.startswith("SLICEWISE_")}
    env.update(PYTHONDONTWRITEBYTECODE="1", OMP_NUM_THREADS="1")
    env["PYTHONPATH"] = f"{RUNTIME}:{folder}"
    if stand_in is not None:
        env.update(SLICEWISE_SOCKET=stand_in.socket_path, SLICEWISE_GPU="1", SLICEWISE_BUNDLE="b1")
    env.update(environment)
    script = ["-c", _SERVER.format(module=module)] if not module.endswith(".py") else [module]
    command = [sys.executable, *script]
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=100)
    for line in done.stdout.splitlines():
        if line.startswith("RESULT "):
            return json.loads(line[7:])
    raise AssertionError(f"the handler gave no answer:\n{done.stdout}\n{done.stderr}")
