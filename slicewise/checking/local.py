"""The run beside the platform: the same bundle, interpreter and request, in a process without any of it."""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from functions.service import bundles
from functions.service import bundles_environments as environments
from functions.service.forks import PACKAGE_ROOT
from slicewise.checking.request import Answer, Request

_SCRIPT = Path(__file__).with_name("local_run.py")
# Importing torch and a library or two on a busy machine.
IMPORT_TIMEOUT_S = 180.0
_KEPT_CHARACTERS = 20_000


@dataclass(frozen=True)
class LocalRun:
    """What came of it. Seconds; `why` says why there are no answers, `error` is a traceback."""

    answers: list[Answer] = field(default_factory=list)
    import_s: float | None = None
    torch_s: float | None = None
    activate_s: float | None = None
    """What switching interposition on took beside this run; it was not on in it."""
    error: str = ""
    why: str = ""


def run(request: Request, image: bundles.Image, images: Path, folder: Path, threads: int) -> LocalRun:
    """Run the handler `request.calls` times with `threads` threads of torch; files go to `folder`."""
    if not image.handler:
        return LocalRun(why="the function brings a server of its own, which is not started here")
    bundle = bundles.bundle_path(image.digest, images).resolve()
    python = environments.python_of(image.environment_id, images)
    user_path = request.environment.get("PYTHONPATH", "").split(os.pathsep)
    order = {
        "bundle": str(bundle),
        "path": [entry for entry in user_path if entry],
        "handler": image.handler,
        "template": image.template,
        "template_file": str(PACKAGE_ROOT / "functions" / "service" / "template.py"),
        "runtime": str(PACKAGE_ROOT / "functions" / "runtime"),
        "torch": True,
        "threads": threads,
        "calls": request.calls,
        "request": {
            "method": "POST",
            "headers": dict(request.headers),
            "body": base64.b64encode(request.body).decode(),
        },
    }
    folder.mkdir(exist_ok=True)
    given, answers, said = folder / "order.json", folder / "answers.json", folder / "said.txt"
    given.write_text(json.dumps(order))
    timeout_s = IMPORT_TIMEOUT_S + request.timeout_s * request.calls
    with said.open("wb") as output:
        process = subprocess.Popen(
            [python, _SCRIPT, given, answers],
            cwd=bundle,
            env=_environment(request, image, python, folder),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
        try:
            status = process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            status = None
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
    return _read(answers, said, status, timeout_s)


def _environment(request: Request, image: bundles.Image, python: Path, folder: Path) -> dict[str, str]:
    """What a replica has, without what only the platform sets; no GPU either, whatever the machine has."""
    own = {
        "PATH": os.pathsep.join([str(python.parent), "/usr/local/bin", "/usr/bin", "/bin"]),
        "HOME": str(folder),
        "TMPDIR": str(folder),
        "LANG": "C.UTF-8",
        "PYTHONDONTWRITEBYTECODE": "1",
        "USER": "function",
        "LOGNAME": "function",
        "CUDA_VISIBLE_DEVICES": "",
    }
    return {**own, **image.environment, **request.environment}


def _read(answers: Path, said: Path, status: int | None, timeout_s: float) -> LocalRun:
    try:
        told: Mapping[str, Any] = json.loads(answers.read_text())
    except (OSError, ValueError):
        told = {}
    found = [
        Answer(item["status"], base64.b64decode(item["body"]), item["seconds"], said=item["said"])
        for item in told.get("answers", ())
    ]
    error, why = str(told.get("error") or ""), ""
    if status is None:
        why = f"it did not end within {timeout_s:g} s"
    elif error:
        why = "its import failed there as well"
    elif status:
        words = said.read_text(errors="replace")[-_KEPT_CHARACTERS:].strip().splitlines()
        why = f"its process ended with status {status}" + (f": {words[-1]}" if words else "")
    return LocalRun(found, told.get("import_s"), told.get("torch_s"), told.get("activate_s"), error, why)
