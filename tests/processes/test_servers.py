"""Whatever serves a function's requests: models run on slices, each call bound to the request that made it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.platform_functions import remove
from tests.platform_rig import Platform, Reply

pytestmark = [pytest.mark.live, pytest.mark.timeout(240)]

GUNICORN = "gunicorn --bind 127.0.0.1:$PORT --log-level warning"
WSGI, ASGI = ("/",), ("/", "/thread", "/executor", "/gather")
# The process, the ways in which the model is called, and how many processes answer.
SERVERS = {
    "gunicorn-1": (f"{GUNICORN} --workers 1 wsgi:application", WSGI, 1),
    "gunicorn-4": (f"{GUNICORN} --workers 4 wsgi:application", WSGI, 4),
    "gunicorn-preload": (f"{GUNICORN} --workers 4 --preload wsgi:application", WSGI, 4),
    "gunicorn-threads": (f"{GUNICORN} --workers 1 --threads 4 wsgi:application", WSGI, 1),
    "gunicorn-uvicorn": (f"{GUNICORN} --worker-class uvicorn.workers.UvicornWorker asgi:application", ASGI, 1),
    "gunicorn-asgi": (f"{GUNICORN} --worker-class asgi asgi:application", ASGI, 1),
    "uvicorn": ("python -m uvicorn --port $PORT --log-level warning asgi:application", ASGI, 1),
    "hypercorn": ("hypercorn --bind 127.0.0.1:$PORT asgi:application", ASGI, 1),
    "waitress": ("python -m waitress --host 127.0.0.1 --port $PORT wsgi:application", WSGI, 1),
    "threads": ("python threads.py $PORT", WSGI, 1),
    "aiohttp": ("python loop.py $PORT", ASGI, 1),
}


@pytest.fixture(scope="module")
def servers(platform: Platform, built: Callable[..., str]) -> Iterator[Platform]:
    """One image, one function a server; they come up beside each other."""
    for name, (process, _, _) in SERVERS.items():
        request = {"service": name, "image": built("servers"), "envProcess": process}
        answer = platform.system("/system/functions", "POST", request | {"labels": {"com.slicewise.gpu": "true"}})
        assert answer.status == 202, answer.text
    yield platform
    remove(platform, *SERVERS)


@pytest.mark.parametrize("server", SERVERS)
def test_every_answer_carries_its_own_calls_and_no_others(servers: Platform, server: str) -> None:
    _, paths, processes = SERVERS[server]
    servers.wait_ready(server)
    first, second = call(servers, server, paths[0], [1.0]), call(servers, server, paths[0], [2.0])
    assert first.headers["x-slicewise-cache"] == "miss"
    assert second.headers["x-slicewise-cache"] == "hit"
    assert float(second.headers["x-slicewise-infer-seconds"]) > 0
    pids = {first.json()["pid"], second.json()["pid"]}
    asked = [(path, [float(number), float(number + 1)]) for number in range(16 // len(paths)) for path in paths]

    def all_asked() -> bool:
        """Ask them all at once; whether every kind of process has answered by now: the first is ready before others."""
        with ThreadPoolExecutor(8) as pool:
            pids.update(reply.json()["pid"] for reply in pool.map(lambda item: call(servers, server, *item), asked))
        return processes == 1 or len(pids) > 1

    servers.wait(all_asked, "only one of its processes answers")
    # What computes nothing says so, whatever its thread or loop did before.
    idle = servers.call(f"{server}/idle", b"[]")
    assert idle.json()["values"] == []
    assert not [name for name in idle.headers if name.lower().startswith("x-slicewise")]
    assert len(pids) == 1 if processes == 1 else 1 < len(pids) <= processes
    assert "com.slicewise.why" not in servers.system(f"/system/function/{server}").json().get("annotations", {})
    if server == "gunicorn-preload":
        assert first.json()["loaded_by"] not in pids


def call(platform: Platform, name: str, path: str, numbers: list[float]) -> Reply:
    reply = platform.call(f"{name}{path}", json.dumps(numbers).encode())
    assert reply.status == 200, (reply.text, platform.cli("logs", name).stdout)
    seen = reply.json()
    assert (seen["values"], seen["cuda"]) == ([3 * number + 1 for number in numbers], True)
    assert reply.headers["x-slicewise-slice"].startswith("local-s")
    assert reply.headers["x-slicewise-cache"] in ("hit", "miss")
    return reply
