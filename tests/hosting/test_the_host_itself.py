"""How a host starts and ends, and what it does with the remains of one that was killed."""

from __future__ import annotations

import asyncio
import os
import signal
import sys

import psutil
import pytest

from tests.function_rig.rig import HANG_S, HostRig

pytestmark = pytest.mark.live

OK = "def handle(event, context):\n    return 'one'\n"


async def test_sigterm_ends_every_process(own_host: HostRig) -> None:
    await own_host.deploy("ended", OK, replicas=2)
    await own_host.stop()  # asserts that nothing is left
    assert own_host.process is not None
    assert own_host.process.returncode == 0


async def test_a_killed_host_takes_its_functions_along_and_starts_clean(own_host: HostRig) -> None:
    url = await own_host.deploy(
        "orphaned",
        """
        import subprocess
        sleeper = subprocess.Popen(["sleep", "602"], start_new_session=True)
        def handle(event, context):
            return str(sleeper.pid)
        """,
    )
    sleeper = psutil.Process(int((await own_host.call(url))[1]))
    assert own_host.process is not None
    children = psutil.Process(own_host.process.pid).children(recursive=True)
    children = [child for child in children if child.pid != sleeper.pid]
    own_host.process.kill()
    await own_host.process.wait()
    for child in children:
        await _ended(child)
    assert own_host.http is not None
    await own_host.http.close()
    await own_host._channel.close()
    await own_host.start()
    await _ended(sleeper)
    await own_host.apply("orphaned")
    await own_host.ready("orphaned")


async def _ended(process: psutil.Process) -> None:
    async with asyncio.timeout(HANG_S):
        while process.is_running() and process.status() != psutil.STATUS_ZOMBIE:  # noqa: ASYNC110
            await asyncio.sleep(0.05)


async def test_unknown_settings_are_refused() -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "functions.service", "--colour", "blue", stderr=asyncio.subprocess.PIPE
    )
    async with asyncio.timeout(HANG_S):
        _, said = await process.communicate()
    assert process.returncode == 2
    assert b"colour" in said


async def test_strangers_are_refused(own_host: HostRig) -> None:
    import grpc

    from proto.wire import peers
    from proto.wire.generated import slicewise_pb2 as pb

    replica = own_host.keys["replicas"].sign({"sub": "replica:a.openfaas-fn"})
    for credential in ("nonsense", replica):
        with pytest.raises(grpc.aio.AioRpcError):
            await own_host.stub.Apply(pb.ReplicaSet(), metadata=peers.metadata(credential))


async def test_sigterm_while_a_handler_will_not_end(own_host: HostRig) -> None:
    url = await own_host.deploy(
        "stubborn",
        """
        import signal, time
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        def handle(event, context):
            time.sleep(600)
        """,
    )
    call = asyncio.create_task(own_host.call(url))
    await asyncio.sleep(0.2)
    assert own_host.process is not None
    os.kill(own_host.process.pid, signal.SIGTERM)
    async with asyncio.timeout(5):
        await own_host.process.wait()
    await asyncio.wait([call])
    call.exception()
