"""The runtime in every Python that is at hand: it needs nothing but the standard library, and no torch to say hello.

A process under another interpreter than the platform's serves requests and asks the broker; a pool's thread works for
whoever feeds it.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from functions.service.broker.runtime_side import PROTOCOL
from proto.wire import frames

RUNTIME = Path(__file__).resolve().parents[2] / "functions" / "runtime"
OLDEST, NEWEST = 9, 14
TIMEOUT_S = 60.0

SERVER = """
import concurrent.futures, http.server, importlib, json, pkgutil, sys
import _slicewise

POOL = concurrent.futures.ThreadPoolExecutor(2)
MODULES = [name for _, name, _ in pkgutil.iter_modules(_slicewise.__path__)]
for name in MODULES:
    importlib.import_module("_slicewise." + name)


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        from _slicewise import channel
        from _slicewise.context import call

        heard = channel.ask({"op": "note", "text": "here"})["ok"]
        answer = json.dumps({"token": POOL.submit(call.get).result(), "heard": heard, "modules": MODULES}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_address[1], flush=True)
server.serve_forever()
"""


def interpreters() -> dict[str, str]:
    """{name: path} of the other Pythons here that the runtime is made for, told by their paths alone."""
    named = {}
    for minor in range(OLDEST, NEWEST + 1):
        if minor == sys.version_info[1]:
            continue
        installed = sorted(Path("~/.pyenv/versions").expanduser().glob(f"3.{minor}.*/bin/python"))
        path = shutil.which(f"python3.{minor}") or ""
        found = [str(one) for one in installed] or ([path] if path and "/shims/" not in path else [])
        if found:
            named[f"3.{minor}"] = found[-1]
    pypy = shutil.which("pypy3")
    return named | ({"pypy3": pypy} if pypy else {})


OTHERS = interpreters()
NONE = pytest.param("none", marks=pytest.mark.skip(reason="no other Python from 3.9 on is installed here"))
FOUND = sorted(OTHERS)
each = pytest.mark.parametrize("name", FOUND or [NONE])


class Greeted:
    """A broker that only hears who is there, and says that all is well."""

    def __init__(self, folder: Path) -> None:
        self.path = str(folder / "runtime.sock")
        self.said: list[dict[str, Any]] = []
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._listener.bind(self.path)
        self._listener.listen()
        self._listener.settimeout(TIMEOUT_S)
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        sock, _ = self._listener.accept()
        with sock, contextlib.suppress(frames.FrameError):
            while True:
                header, _ = frames.receive(sock)
                self.said.append(header)
                answer = {"id": header["id"], "ok": True, "protocol": PROTOCOL, "function": "f.ns", "gpu": True}
                frames.send(sock, answer)

    def close(self) -> None:
        self._thread.join(TIMEOUT_S)
        self._listener.close()


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Greeted]:
    """Hears one process."""
    greeted = Greeted(tmp_path)
    yield greeted
    greeted.close()


@each
def test_a_process_says_hello_and_carries_tokens(name: str, tmp_path: Path, broker: Greeted) -> None:
    (tmp_path / "server.py").write_text(SERVER)
    env = {key: value for key, value in os.environ.items() if not key.startswith(("SLICEWISE_", "PYENV"))}
    env |= {"PYTHONPATH": str(RUNTIME), "PYTHONDONTWRITEBYTECODE": "1"}
    env |= {"SLICEWISE_GPU": "1", "SLICEWISE_SOCKET": broker.path}
    with subprocess.Popen([OTHERS[name], "server.py"], cwd=tmp_path, env=env, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            port = int(process.stdout.readline())
            for token in ("one", "other", ""):
                headers = {"X-Slicewise-Call": token} if token else {}
                request = urllib.request.Request(f"http://127.0.0.1:{port}/", headers=headers)
                with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
                    seen = json.load(answer)
                assert (seen["token"], seen["heard"]) == (token, True)
        finally:
            process.kill()
    assert set(seen["modules"]) == {file.stem for file in (RUNTIME / "_slicewise").glob("*.py")} - {"__init__"}
    hello, *notes = broker.said
    assert (hello["op"], {note["op"] for note in notes}) == ("hello", {"note"})
    assert hello["python"] == name or name == "pypy3"


@pytest.mark.skipif(shutil.which("pypy3") is None, reason="no pypy3 is installed here (apt-get install pypy3)")
def test_pypy_reads_every_file_of_the_runtime() -> None:
    files = [str(path) for path in sorted(RUNTIME.rglob("*.py"))]
    code = (
        "import sys\nfor path in sys.argv[1:]:\n    compile(open(path).read(), path, 'exec')\nprint(len(sys.argv) - 1)"
    )
    command = ["pypy3", "-c", code, *files]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert (done.stdout.strip(), done.stderr) == (str(len(files)), "")
