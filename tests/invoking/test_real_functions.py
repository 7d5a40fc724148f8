"""The gateway over the real function host: from an image to an answer, and every way it can go wrong."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest

from tests.gateway_rig.real_host import RealHost
from tests.gateway_rig.rig import HANG_S, Reply, Rig, eventually

pytestmark = pytest.mark.live

ECHO = """
    import os, socket

    def handle(event, context):
        print("called", event.path, flush=True)
        if event.path.startswith("/wait/"):
            socket.create_connection(("127.0.0.1", int(event.path.rpartition("/")[2]))).recv(1)
        if event.path == "/raise":
            raise ValueError("not for callers")
        if event.path == "/exit":
            os._exit(3)
        if event.path == "/secret":
            return open("/var/openfaas/secrets/token").read()
        return {"statusCode": 200, "body": {"method": event.method, "path": event.path, "bytes": len(event.body)}}
"""
STREAM = """
    import http.server, os, socket

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.send_header("transfer-encoding", "chunked")
            self.end_headers()
            self.wfile.write(b"d\\r\\ndata: first\\n\\n\\r\\n")
            self.wfile.flush()
            socket.create_connection(("127.0.0.1", int(self.path.rpartition("/")[2]))).recv(1)
            self.wfile.write(b"c\\r\\ndata: last\\n\\n\\r\\n0\\r\\n\\r\\n")

        def log_message(self, *args):
            pass

    http.server.ThreadingHTTPServer(("127.0.0.1", int(os.environ["PORT"])), Handler).serve_forever()
"""
DOCKERFILE = """
    FROM scratch
    ENV fprocess="python server.py" upstream_url="http://127.0.0.1:$PORT" mode="http"
"""


class Gate:
    """A port that a function connects to when it begins, and that it waits at."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(HANG_S)
        self.port = self._listener.getsockname()[1]
        self._connection: socket.socket | None = None

    def begun(self) -> None:
        self._connection, _ = self._listener.accept()

    def open(self) -> None:
        assert self._connection is not None
        self._connection.close()
        self._listener.close()


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    made = Rig(tmp_path_factory.mktemp("real"))
    host = RealHost(made)
    try:
        host.build("echo:1", {"handler.py": ECHO})
        host.build("broken:1", {"handler.py": "import nothing_of_that_name\n"})
        host.build("stream:1", {"server.py": STREAM, "Dockerfile": DOCKERFILE})
        made.host_address = host.start()
        made.start()
        yield made
    finally:
        made.close()
        host.stop()


def test_an_image_becomes_an_answer(real: Rig) -> None:
    real.manage("POST", "/system/secrets", {"name": "token", "value": "hush"})
    real.deploy("echo", "echo:1", secrets=["token"])
    reply = real.ask("POST", "/function/echo/a/b?x=1", b"12345")
    assert reply.json == {"method": "POST", "path": "/a/b", "bytes": 5}
    assert float(reply.headers["x-duration-seconds"]) > 0
    assert real.ask("GET", "/function/echo/secret").text == "hush"
    unknown = real.manage("POST", "/system/functions", {"service": "x", "image": "nowhere:9"})
    assert unknown.status == 400
    assert "nowhere:9" in unknown.text


def test_the_first_chunk_of_a_real_stream_is_read_before_the_last_is_made(real: Rig) -> None:
    gate = Gate()
    real.deploy("stream", "stream:1")
    connection = real.connection()
    connection.request("GET", f"/function/stream/{gate.port}")
    gate.begun()
    answer = connection.getresponse()
    assert answer.read1(100) == b"data: first\n\n"
    gate.open()
    assert answer.read() == b"data: last\n\n"
    connection.close()


def test_a_handler_that_raises_is_500_with_its_traceback_in_the_log_only(real: Rig) -> None:
    real.deploy("raises", "echo:1")
    reply = real.ask("GET", "/function/raises/raise")
    assert reply.status == 500
    assert "not for callers" not in reply.text
    eventually(lambda: "not for callers" in real.manage("GET", "/system/logs?name=raises&follow=false").text)


def test_a_process_that_exits_in_a_call_is_502_and_comes_back(real: Rig) -> None:
    real.deploy("exits", "echo:1")
    assert real.ask("GET", "/function/exits/exit").status == 502
    eventually(lambda: real.ask("GET", "/function/exits").status == 200)


def test_a_broken_handler_is_explained_by_describe(real: Rig) -> None:
    real.deploy("broken", "broken:1", ready=False)
    eventually(lambda: "nothing_of_that_name" in str(real.describe("broken").get("annotations")))
    assert real.describe("broken")["replicas"] == 1
    eventually(lambda: real.ask("GET", "/function/broken").status == 503)


def test_zero_replicas_are_woken_by_a_call(real: Rig) -> None:
    real.deploy("zero", "echo:1")
    real.manage("POST", "/system/scale-function/zero", {"replicas": 0})
    replies: list[Reply] = []
    threads = [threading.Thread(target=lambda: replies.append(real.ask("GET", "/function/zero"))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [reply.status for reply in replies] == [200] * 4


def test_max_inflight_of_the_function_holds(real: Rig) -> None:
    real.deploy("narrow", "echo:1", envVars={"max_inflight": "1"})
    gate = Gate()
    replies: list[Reply] = []
    held = threading.Thread(target=lambda: replies.append(real.ask("GET", f"/function/narrow/wait/{gate.port}")))
    held.start()
    gate.begun()
    full = real.ask("GET", "/function/narrow")
    assert full.status == 429
    assert "1" in full.text
    gate.open()
    held.join()
    assert replies[0].status == 200


def test_an_update_answers_every_call_meanwhile(real: Rig) -> None:
    real.deploy("rolling", "echo:1")
    statuses: list[int] = []
    done = threading.Event()

    def call() -> None:
        while not done.is_set():
            statuses.append(real.ask("POST", "/function/rolling", b"x").status)

    caller = threading.Thread(target=call)
    caller.start()
    for number in range(3):
        before = real.describe("rolling")
        real.deploy("rolling", "echo:1", envVars={"N": str(number)})
        eventually(lambda: len(statuses) > 20)
        assert before["createdAt"] == real.describe("rolling")["createdAt"]
    eventually(lambda: real.describe("rolling").get("availableReplicas") == 1)
    done.set()
    caller.join()
    assert set(statuses) == {200}


def test_a_killed_gateway_finds_its_functions_running(real: Rig) -> None:
    real.deploy("steady", "echo:1")
    line = real.manage("GET", "/system/logs?name=steady&follow=false&tail=100").text
    real.stop_gateway(kill=True)
    real.start_gateway()
    assert real.ask("GET", "/function/steady").status == 200
    assert "restarts" not in str(real.describe("steady"))
    assert real.manage("GET", "/system/logs?name=steady&follow=false&tail=100").text.startswith(line)
