"""The corpus without Slicewise: `python -m tests.corpus.alone ORDERS` prepares each folder, then runs its handler.

It is what a developer's own machine without a GPU would answer. Of the runtime only `devices.patch` is used, by which
"cuda" means the CPU; modules and files that are moved there stay where they are. Nothing is intercepted and nothing
leaves the process. Each step is a fork of one process that has imported the large libraries before.

ORDERS is a file of JSON, a list of {name, folder, imports, server, no_gpu, calls: [{path, body, content_type}]}. What
was done is told on stdout as JSON lines: {"prepared": name}, {"answered": name, "answers": [{status, body}]} with
bodies in base64, {"failed": name, "why": traceback}.
"""

from __future__ import annotations

import asyncio
import base64
import importlib
import inspect
import io
import json
import os
import runpy
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.corpus.cases import PREPARE

# A guard against a handler that hangs.
STEP_S = 90
# What takes long to import of each library, done once for all functions that use it.
LARGE = {
    "keras": ["keras"],
    "transformers": [
        "accelerate",
        "transformers.pipelines",
        "transformers.models.bert.modeling_bert",
        "transformers.models.gpt2.modeling_gpt2",
    ],
}
RUNTIME = Path(__file__).resolve().parents[2] / "functions" / "runtime"


def main() -> int:
    """Carry out the orders; a folder that cannot be prepared is not asked."""
    told = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what handlers print is nobody's answer
    orders = json.loads(Path(sys.argv[1]).read_text())
    importlib.import_module("torch")
    prepared = []
    for order in orders:
        for name in order["imports"]:
            for module in LARGE[name]:
                importlib.import_module(module)
        failure, _ = _in_a_fork(order, _prepare)
        if failure:
            print(json.dumps({"failed": order["name"], "why": failure}), file=told)
        else:
            prepared.append(order)
            print(json.dumps({"prepared": order["name"]}), file=told)
    for order in prepared:
        if not order["calls"]:
            continue
        failure, answers = _in_a_fork(order, _answer)
        line = {"failed": order["name"], "why": failure} if failure else {"answered": order["name"], "answers": answers}
        print(json.dumps(line), file=told)
    return 0


def _in_a_fork(order: dict[str, Any], step: Callable[[dict[str, Any]], Any]) -> tuple[str, Any]:
    """(traceback or "", what the step gave)."""
    with tempfile.TemporaryFile() as result:
        pid = os.fork()
        if pid == 0:
            signal.alarm(STEP_S)
            code = 1
            try:
                os.chdir(order["folder"])
                sys.path.insert(0, order["folder"])
                result.write(json.dumps(step(order)).encode())
                code = 0
            except BaseException:
                result.write(traceback.format_exc().encode())
            result.flush()
            os._exit(code)
        _, status = os.waitpid(pid, 0)
        result.seek(0)
        said = result.read().decode()
    if status == 0:
        return "", json.loads(said)
    return said or f"it ended with status {status}", None


def _prepare(order: dict[str, Any]) -> None:
    if Path(PREPARE).exists():
        runpy.run_path(PREPARE, run_name="__main__")


def _answer(order: dict[str, Any]) -> list[dict[str, Any]]:
    _stay_here(order["no_gpu"])
    application = _application(order["server"])
    return [_call(application, call) for call in order["calls"]]


def _stay_here(no_gpu: bool) -> None:
    import torch

    sys.path.insert(0, str(RUNTIME))
    from _slicewise import devices

    devices.patch(torch)
    module = torch.nn.Module
    move = module.to

    def to(self: Any, *args: Any, **kwargs: Any) -> Any:
        if args and devices.is_cuda(args[0], torch):
            args = (torch.device("cpu"), *args[1:])
        if "device" in kwargs:
            kwargs["device"] = devices.local(kwargs["device"], torch)
        return move(self, *args, **kwargs)

    module.to = to
    module.cuda = lambda self, device=None: self
    torch.jit.load = devices._mapped_load(torch, torch.jit.load)
    if no_gpu:
        torch.cuda.is_available = lambda: False
        torch.cuda.device_count = lambda: 0


def _application(server: str) -> Any:
    """A WSGI application: the template around `handle`, or the folder's own."""
    if not server:
        from functions.service.template import Application

        return Application(importlib.import_module("handler").handle, "python3-http", None)
    name, _, attribute = server.partition(":")
    application = getattr(importlib.import_module(name), attribute)
    if not any(inspect.iscoroutinefunction(called) for called in (application, type(application).__call__)):
        return application
    if hasattr(application, "router"):
        asyncio.run(application.router.lifespan_context(application).__aenter__())  # it ends with this process
    from a2wsgi import ASGIMiddleware

    return ASGIMiddleware(application)


def _call(application: Any, call: dict[str, Any]) -> dict[str, Any]:
    body = call["body"].encode()
    path, _, query = call["path"].partition("?")
    began: list[str] = []

    def start_response(status: str, headers: Any, failure: Any = None) -> Any:
        began[:] = [status]

    chunks = application(
        {
            "REQUEST_METHOD": "POST", "SCRIPT_NAME": "", "PATH_INFO": path, "QUERY_STRING": query,
            "CONTENT_TYPE": call["content_type"], "CONTENT_LENGTH": str(len(body)),
            "SERVER_NAME": "localhost", "SERVER_PORT": "80", "SERVER_PROTOCOL": "HTTP/1.1", "REMOTE_ADDR": "127.0.0.1",
            "wsgi.version": (1, 0), "wsgi.url_scheme": "http", "wsgi.input": io.BytesIO(body),
            "wsgi.errors": sys.stderr, "wsgi.multithread": True, "wsgi.multiprocess": False, "wsgi.run_once": False,
        },
        start_response,
    )  # fmt: skip
    content = b"".join(chunks)
    return {"status": int(began[0].split()[0]), "body": base64.b64encode(content).decode()}


if __name__ == "__main__":
    sys.exit(main())
