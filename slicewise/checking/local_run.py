"""Runs a handler as it would run without the platform: `python local_run.py ORDER ANSWERS`, nothing of ours imported.

ORDER is a JSON file: bundle, handler, template (path of the templates' module and its name), runtime (folder of the
runtime, of which only the module that makes "cuda" mean the CPU is used), request, calls, threads. The answers go to
ANSWERS as JSON, written anew after each call, so that those before a crash are kept. Standard library only, Python 3.9.
"""

from __future__ import annotations

import base64
import importlib
import importlib.util
import io
import json
import os
import sys
import time
import traceback
from types import ModuleType
from typing import Any, TextIO


def main() -> int:
    """Import the handler and call it; the exit status says whether it could be imported."""
    with open(sys.argv[1]) as file:
        order = json.load(file)
    answers = sys.argv[2]
    told: dict[str, Any] = {"answers": [], "torch_s": None, "import_s": None, "patch_s": None, "error": ""}
    sys.argv[:] = ["function"]
    sys.path[:1] = [order["bundle"], *order["path"]]  # the first was this file's folder
    os.chdir(order["bundle"])
    template = _load("slicewise_template", order["template_file"])
    began = time.perf_counter()
    if order["torch"]:
        _torch_without_cuda(order, told)
    try:
        handle = importlib.import_module(order["handler"]).handle
    except BaseException:
        told["error"] = traceback.format_exc()
        _write(answers, told)
        return 1
    told["import_s"] = time.perf_counter() - began - (told["patch_s"] or 0.0)
    application = template.Application(handle, order["template"], None)
    for _ in range(order["calls"]):
        told["answers"].append(_call(application, order["request"]))
        _write(answers, told)
    return 0


def _load(name: str, path: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _torch_without_cuda(order: dict[str, Any], told: dict[str, Any]) -> None:
    began = time.perf_counter()
    try:
        import torch
    except ImportError:
        return
    told["torch_s"] = time.perf_counter() - began
    torch.set_num_threads(order["threads"])
    sys.path.append(order["runtime"])
    began = time.perf_counter()
    told["activate_s"] = min((seconds for seconds in (_activation() for _ in range(3)) if seconds), default=None)
    from _slicewise import devices

    devices.patch(torch)
    torch.jit.load = devices._mapped_load(torch, torch.jit.load)
    told["patch_s"] = time.perf_counter() - began
    sys.path.remove(order["runtime"])


def _activation() -> float | None:
    """Seconds that switching interposition on takes where torch is there already: in a child, this process has none."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.environ.update(SLICEWISE_GPU="1", SLICEWISE_SOCKET="/nowhere")
            began = time.perf_counter()
            import _slicewise

            _slicewise.activate()
            os.write(writing, str(time.perf_counter() - began).encode())
        finally:
            os._exit(0)
    os.close(writing)
    os.waitpid(child, 0)
    with os.fdopen(reading, "rb") as pipe:
        text = pipe.read()
    return float(text) if text else None


def _call(application: Any, request: dict[str, Any]) -> dict[str, Any]:
    body = base64.b64decode(request["body"])
    environ: dict[str, Any] = {
        "REQUEST_METHOD": request["method"],
        "PATH_INFO": "/",
        "QUERY_STRING": "",
        "CONTENT_LENGTH": str(len(body)) if body else "",
        "wsgi.input": io.BytesIO(body),
    }
    for name, value in request["headers"].items():
        key = name.upper().replace("-", "_")
        environ[key if key == "CONTENT_TYPE" else "HTTP_" + key] = value
    heard: dict[str, int] = {}

    def start_response(status: str, _headers: Any) -> None:
        heard["status"] = int(status.split()[0])

    # The template prints an exception's traceback and answers 500; here it is the answer that is wanted.
    said, stderr = io.StringIO(), sys.stderr
    sys.stderr = _Both(said, stderr)  # type: ignore[assignment]
    began = time.perf_counter()
    try:
        answer = b"".join(application(environ, start_response))
    except BaseException:
        heard.setdefault("status", 500)
        answer = b""
        traceback.print_exc()
    finally:
        seconds = time.perf_counter() - began
        sys.stderr = stderr
    return {
        "status": heard["status"],
        "body": base64.b64encode(answer).decode(),
        "seconds": seconds,
        "said": said.getvalue() if heard["status"] >= 500 else "",
    }


class _Both:
    """stderr, and a copy of it."""

    def __init__(self, copy: TextIO, stream: TextIO) -> None:
        self._copy = copy
        self._stream = stream

    def write(self, text: str) -> int:
        """Both get it."""
        self._copy.write(text)
        return self._stream.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def _write(path: str, told: dict[str, Any]) -> None:
    fresh = path + ".new"
    with open(fresh, "w") as file:
        json.dump(told, file)
    os.replace(fresh, path)


if __name__ == "__main__":
    sys.exit(main())
