"""Functions that bring a server of their own: fprocess and upstream_url, of-watchdog's http mode."""

from __future__ import annotations

import pytest

from tests.function_rig.rig import HostRig

pytestmark = [pytest.mark.live, pytest.mark.asyncio(loop_scope="module")]

SERVER = """
    import http.server, os, sys

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        def do_GET(self):
            if self.path == "/exit":
                os._exit(0)
            if self.path == "/until-close":
                self.send_response(200)
                self.send_header("Connection", "close")
                self.end_headers()
                self.wfile.write(b"to the end")
                self.close_connection = True
                return
            body = f"{os.environ['WORD']} {self.path}".encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
        def log_message(self, *_):
            pass

    http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""
DOCKERFILE = """
    FROM python:3.11
    ENV WORD=hello \\
        fprocess="python server.py $PORT"
    ENV mode=http upstream_url=http://127.0.0.1:0
    LABEL com.example=yes
"""


async def test_a_server_of_its_own_answers(host: HostRig) -> None:
    url = await host.deploy("own", {"server.py": SERVER, "Dockerfile": DOCKERFILE}, replicas=2)
    assert (await host.call(f"{url}/a?b=c", method="GET"))[:2] == (200, b"hello /a?b=c")
    assert (await host.call(f"{url}/until-close", method="GET"))[:2] == (200, b"to the end")
    addresses = {replica.address for replica in await host.ready("own", 2)}
    assert len(addresses) == 2


async def test_its_exit_with_0_is_noticed(host: HostRig) -> None:
    url = await host.deploy("own-exit", {"server.py": SERVER, "Dockerfile": DOCKERFILE})
    status, body, _ = await host.call(f"{url}/exit", method="GET")
    assert (status, b"exit status 0" in body) == (502, True)
    assert (await host.call(f"{url}/", method="GET"))[0] == 200


async def test_modes_that_fork_say_that_they_are_not_supported(host: HostRig) -> None:
    host.build("forking", {"run.sh": "cat", "Dockerfile": 'FROM x\nENV fprocess="cat"\n'})
    answer = await host.apply("forking")
    assert answer.failure.code == "not_implemented"
    assert "mode streaming" in answer.failure.message
    answer = await host.apply("forking", env={"mode": "http"})
    assert answer.failure.code == "bad_function"
    assert "upstream_url" in answer.failure.message


async def test_a_server_that_cannot_be_started_says_why(host: HostRig) -> None:
    dockerfile = 'FROM x\nENV fprocess="no-such-program --x" mode=http upstream_url=http://127.0.0.1:0\n'
    host.build("absent", {"a.txt": "", "Dockerfile": dockerfile})
    await host.apply("absent")
    state = await host.until("absent", lambda f: bool(f.replicas) and f.replicas[0].status == "failed")
    assert "no-such-program cannot be started" in state.replicas[0].why
