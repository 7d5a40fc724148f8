"""The broker's limits: how many at once, how long, and what it says when they are met."""

from __future__ import annotations

import asyncio

import pytest

from tests.function_rig.rig import HANG_S, HostRig

pytestmark = [pytest.mark.live, pytest.mark.asyncio(loop_scope="module")]

GATE = """
    import threading
    inside = threading.Semaphore(0)
    gate = threading.Event()

    def handle(event, context):
        if event.path == "/open":
            gate.set()
            return "opened"
        if event.path == "/inside":
            return str(inside.acquire(timeout=20))
        inside.release()
        gate.wait(20)
        return "through"
"""


async def test_max_inflight_rejects_at_once_and_recovers(host: HostRig) -> None:
    url = await host.deploy(
        "gated",
        "import threading\ngate = threading.Event()\n"
        "def handle(event, context):\n    gate.wait(0.7)\n    return 'through'\n",
        env={"max_inflight": "2"},
    )
    answers = await asyncio.gather(*(host.call(url) for _ in range(6)))
    statuses = sorted(status for status, _, _ in answers)
    assert statuses == [200, 200, 429, 429, 429, 429]
    _, body, headers = next(answer for answer in answers if answer[0] == 429)
    assert body.decode().strip() == "Concurrent request limit exceeded. Max concurrent requests: 2"
    assert headers["X-OpenFaaS-Internal"] == "faas-middleware"
    assert (await host.call(url))[0] == 200


async def test_ready_is_429_while_full_and_health_is_not(host: HostRig) -> None:
    url = await host.deploy("full", GATE, env={"max_inflight": "1"})
    call = asyncio.create_task(host.call(url))
    async with asyncio.timeout(HANG_S):
        while (await host.call(f"{url}/_/ready", method="GET"))[0] != 429:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    assert (await host.call(f"{url}/_/health", method="GET"))[0] == 200
    assert (await host.call(f"{url}/_/health"))[0] == 405
    call.cancel()


async def test_exec_timeout_is_a_504_that_names_it(host: HostRig) -> None:
    url = await host.deploy("slow", GATE, env={"exec_timeout": "300ms"})
    status, body, headers = await host.call(url)
    assert status == 504
    assert "exec_timeout (0.3 s)" in body.decode()
    assert headers["X-Slicewise-Error"] == "deadline_exec"
    assert float(headers["X-Duration-Seconds"]) >= 0.3
    assert (await host.call(f"{url}/open"))[0] == 200


async def test_x_timeout_shortens_but_never_lengthens(host: HostRig) -> None:
    url = await host.deploy("hurried", GATE, env={"exec_timeout": "600ms"})
    _, body, _ = await host.call(url, headers={"X-Timeout": "100ms"})
    assert "0.1 s" in body.decode()
    _, body, _ = await host.call(url, headers={"X-Timeout": "1h"})
    assert "0.6 s" in body.decode()


async def test_calls_that_never_return_cost_the_process_not_the_function(host: HostRig) -> None:
    """When every thread is held by a call that was given up, the process is started afresh."""
    url = await host.deploy(
        "stuck",
        "import time\n\ndef handle(event, context):\n    time.sleep(3600 if event.path == '/stuck' else 0)\n"
        "    return 'ok'\n",
        env={"exec_timeout": "500ms"},
    )
    answers = await asyncio.gather(*(host.call(f"{url}/stuck") for _ in range(32)))
    assert {status for status, _, _ in answers} == {504}
    state = await host.until("stuck", lambda f: f.replicas[0].restarts == 1 and f.replicas[0].status == "ready")
    assert state.replicas[0].why == ""
    assert (await host.call(url))[:2] == (200, b"ok")


async def test_a_call_is_held_until_the_function_serves(host: HostRig) -> None:
    host.build("sleepy", "import time\ntime.sleep(1)\n\ndef handle(event, context):\n    return 'awake'\n")
    await host.apply("sleepy")
    state = await host.until("sleepy", lambda f: bool(f.replicas) and bool(f.replicas[0].address))
    url = f"http://{state.replicas[0].address}"
    assert state.replicas[0].status == "starting"
    assert (await host.call(f"{url}/_/ready", method="GET"))[0] == 503
    assert (await host.call(url))[:2] == (200, b"awake")


async def test_platform_headers_of_clients_do_not_reach_the_function(host: HostRig) -> None:
    url = await host.deploy("nosy", "def handle(event, context):\n    return {'seen': sorted(event.headers)}\n")
    sent = {"X-Slicewise-Binding": "forged", "X-Slicewise-Call": "forged", "Connection": "X-Private", "X-Private": "1"}
    _, body, _ = await host.call(url, headers={**sent, "X-Public": "1", "Proxy-Authorization": "secret"})
    seen = body.decode()
    assert "X-Public" in seen
    assert "Slicewise" not in seen
    assert "Private" not in seen
    assert "Proxy" not in seen
