"""Replicas come, fail, are started again, are replaced and go; the host says what happens and why."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal

import psutil
import pytest

from tests.function_rig.fixtures import needs_root
from tests.function_rig.rig import HANG_S, OTHER_UID, UID, HostRig

pytestmark = [pytest.mark.live, pytest.mark.asyncio(loop_scope="module")]

OK = "def handle(event, context):\n    return 'one'\n"


async def test_scale_to_zero_and_up_again(host: HostRig) -> None:
    await host.deploy("scaled", OK, replicas=2)
    await host.apply("scaled", replicas=0)
    state = await host.until("scaled", lambda f: not f.replicas)
    assert state.generation  # the function is known, with nothing running
    await host.apply("scaled", replicas=1)
    replica = (await host.ready("scaled"))[0]
    assert (await host.call(f"http://{replica.address}"))[1] == b"one"
    await host.remove("scaled")
    await host.until("scaled", lambda f: not f.replicas and not f.generation)


async def test_only_the_number_changes_when_nothing_else_does(host: HostRig) -> None:
    await host.deploy("steady", OK)
    before = (await host.ready("steady"))[0]
    await host.apply("steady", replicas=2)
    after = await host.ready("steady", 2)
    assert before.id in {replica.id for replica in after}
    assert {replica.generation for replica in after} == {before.generation + 1}


async def test_an_older_generation_changes_nothing(host: HostRig) -> None:
    await host.deploy("ordered", OK)
    await host.apply("ordered", replicas=0, generation=1)
    state = await host.until("ordered", lambda f: True)
    assert len(state.replicas) == 1


async def test_rolling_update_without_a_failed_request(host: HostRig) -> None:
    await host.deploy("rolled", OK)
    host.build("rolled", "import time\ntime.sleep(0.5)\n\ndef handle(event, context):\n    return 'two'\n")
    answers: list[bytes] = []
    done = asyncio.Event()
    addresses = [f"http://{(await host.ready('rolled'))[0].address}"]

    async def follow() -> None:
        """Route as the gateway does: to replicas that are ready in the last state heard."""
        async with contextlib.aclosing(host.watch()) as states:
            async for state in states:
                for function in state.functions:
                    ready = [f"http://{r.address}" for r in function.replicas if r.status == "ready"]
                    if function.function.name == "rolled" and ready:
                        addresses[:] = ready

    async def keep_calling() -> None:
        while not done.is_set():
            status, body, _ = await host.call(addresses[0])
            assert status == 200, body
            answers.append(body)

    following = asyncio.create_task(follow())
    callers = [asyncio.create_task(keep_calling()) for _ in range(3)]
    await host.apply("rolled", revision="r2")
    generation = host._generation
    await host.until("rolled", lambda f: [(r.status, r.generation) for r in f.replicas] == [("ready", generation)])
    done.set()
    await asyncio.gather(*callers)
    following.cancel()
    assert answers[0] == b"one"
    assert answers[-1] == b"two"


async def test_a_broken_update_leaves_the_old_replica_serving(host: HostRig) -> None:
    url = await host.deploy("kept", OK)
    host.build("kept", "raise RuntimeError('the new one is broken')\n")
    await host.apply("kept", revision="r2")
    state = await host.until(
        "kept", lambda f: any(r.status == "failed" for r in f.replicas) and any(r.status == "ready" for r in f.replicas)
    )
    why = next(r.why for r in state.replicas if r.status == "failed")
    assert "exit status 1" in why
    assert "the new one is broken" in why
    assert (await host.call(url))[1] == b"one"


async def test_a_broken_handler_says_why_and_backs_off(host: HostRig) -> None:
    host.build("broken", "print('loading')\nraise ValueError('no such model')\n")
    await host.apply("broken")
    state = await host.until("broken", lambda f: bool(f.replicas) and f.replicas[0].restarts >= 3)
    assert "ValueError: no such model" in state.replicas[0].why
    pauses = [
        float(line.text.rsplit("Started again in ", 1)[1].split(" s")[0])
        for line in await host.logs("broken", tail=-1)
        if "Started again in" in line.text
    ]
    assert pauses == sorted(pauses)
    assert pauses[2] > pauses[0] * 2


async def test_cuda_without_the_flag_says_which_flag(host: HostRig) -> None:
    host.build("unflagged", "import torch\nmodel = torch.nn.Linear(1, 1).to('cuda')\n")
    await host.apply("unflagged")
    state = await host.until("unflagged", lambda f: bool(f.replicas) and f.replicas[0].restarts >= 1)
    assert "com.slicewise.gpu=true" in state.replicas[0].why


async def test_an_image_that_does_not_exist_is_refused(host: HostRig) -> None:
    answer = await host.apply("nowhere", image="registry.example/nothing:1")
    assert answer.failure.code == "bad_image"
    assert "slicewise build" in answer.failure.message


@pytest.mark.parametrize(
    ("act", "said"), [("exit0", "status 0"), ("exit1", "status 1"), ("kill", "SIGKILL"), ("sys", "status 3")]
)
async def test_a_handler_that_ends_its_process(host: HostRig, act: str, said: str) -> None:
    name = f"ends-{act}"
    url = await host.deploy(
        name,
        """
        import os, signal, sys
        def handle(event, context):
            if event.path == "/exit0": os._exit(0)
            if event.path == "/exit1": os._exit(1)
            if event.path == "/kill": os.kill(os.getpid(), signal.SIGKILL)
            if event.path == "/sys": sys.exit(3)
            return "alive"
        """,
    )
    status, body, headers = await host.call(f"{url}/{act}")
    assert status == 502
    assert said in body.decode()
    assert headers["X-Slicewise-Error"] == "function_died"
    # The next call is held until the function serves again.
    assert (await host.call(url))[:2] == (200, b"alive")
    state = await host.until(name, lambda f: f.replicas[0].status == "ready")
    assert state.replicas[0].restarts == 1


async def test_what_a_handler_forks_ends_with_its_replica(host: HostRig) -> None:
    url = await host.deploy(
        "forks",
        """
        import os, subprocess, time
        def handle(event, context):
            child = os.fork()
            if child == 0:
                os.setsid()
                if os.fork():
                    os._exit(0)
                time.sleep(600)
                os._exit(0)
            os.waitpid(child, 0)
            sleeper = subprocess.Popen(["sleep", "601"], start_new_session=True)
            return {"body": str(sleeper.pid)}
        """,
    )
    _, body, _ = await host.call(url)
    sleeper = psutil.Process(int(body))
    assert sleeper.is_running()
    await host.remove("forks")
    await host.until("forks", lambda f: not f.replicas)
    assert not sleeper.is_running() or sleeper.status() == psutil.STATUS_ZOMBIE


async def test_megabytes_of_output_neither_block_nor_fill_the_disk(host: HostRig) -> None:
    url = await host.deploy(
        "loud",
        """
        import sys
        def handle(event, context):
            for _ in range(30):
                sys.stdout.write(("x" * 1023 + "\\n") * 1024)
            sys.stdout.write("y" * 3_000_000 + "\\n")
            print("the end", flush=True)
            return "done"
        """,
    )
    assert (await host.call(url))[1] == b"done"
    kept = sum(path.stat().st_size for path in (host.state / "logs").rglob("loud*.log*"))
    assert kept <= 8 * 1024 * 1024
    assert max(len(line.text) for line in await host.logs("loud", tail=-1)) <= 64 * 1024


async def test_secrets_are_files_for_the_function_only(host: HostRig) -> None:
    url = await host.deploy(
        "secretive",
        """
        import json, os
        def handle(event, context):
            folder = os.environ["secret_mount_path"]
            path = os.path.join(folder, "token")
            mode = oct(os.stat(path).st_mode & 0o777)
            return [open(path, "rb").read().hex(), mode, sorted(os.listdir(folder))]
        """,
        secrets={"token": b"\x00\xffvalue", "other.key": b"x"},
    )
    import json

    value, mode, names = json.loads((await host.call(url))[1])
    assert bytes.fromhex(value) == b"\x00\xffvalue"
    assert mode == "0o400"
    assert names == ["other.key", "token"]
    assert not [path for path in host.state.rglob("*") if path.name == "token"]


@needs_root
async def test_functions_are_kept_apart(host: HostRig) -> None:
    source = """
        import glob, json, os, sqlite3
        open("/tmp/mine", "w").write("x")
        def readable(path):
            try:
                return open(path, "rb").read(200).decode("latin-1")
            except OSError as error:
                return type(error).__name__
        def handle(event, context):
            import wave  # lazily, from an interpreter that may lie below a closed directory
            asked = json.loads(event.body or "{}")
            environments = [readable(path) for path in glob.glob("/proc/[0-9]*/environ")]
            return {"body": {
                "uid": os.getuid(), "gids": os.getgroups(), "tmp": sorted(os.listdir("/tmp")),
                "paths": {path: readable(path) for path in asked},
                "credential": any("platform-secret" in text for text in environments + [json.dumps(dict(os.environ))]),
                "name": os.environ["OPENFAAS_NAME"], "namespace": os.environ["OPENFAAS_NAMESPACE"],
            }}
        """
    import json

    one = await host.deploy("apart-a", source, secrets={"s": b"a"})
    two = await host.deploy("apart-b", source, uid=OTHER_UID)
    socket = next(iter(host.state.parent.rglob("replicas.json")))
    asked = json.dumps([str(socket), "/var/openfaas/secrets/s", str(host.trust)])
    first = json.loads((await host.call(one, asked))[1])
    second = json.loads((await host.call(two, asked))[1])
    assert (first["uid"], second["uid"]) == (UID, OTHER_UID)
    assert first["gids"] == second["gids"] == []
    assert "mine" in first["tmp"]
    assert not first["credential"]
    assert not second["credential"]
    assert first["paths"]["/var/openfaas/secrets/s"] == "a"
    assert second["paths"]["/var/openfaas/secrets/s"] == "FileNotFoundError"
    assert second["paths"][str(socket)] in ("FileNotFoundError", "PermissionError")
    assert (first["name"], first["namespace"]) == ("apart-a", "openfaas-fn")


async def test_logs_with_tail_since_and_follow(host: HostRig) -> None:
    url = await host.deploy(
        "logged", "import sys\n\ndef handle(event, context):\n    print(event.body.decode(), file=sys.stderr)\n"
    )
    for word in ("one", "two", "three"):
        await host.call(url, word.encode())
    async with asyncio.timeout(HANG_S):
        while len(lines := await host.logs("logged", tail=-1)) < 3:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    assert [line.text for line in lines] == ["one", "two", "three"]
    assert [line.text for line in await host.logs("logged", tail=2)] == ["two", "three"]
    assert [line.text for line in await host.logs("logged", since_unix_ns=lines[2].unix_ns)] == ["three"]
    assert {line.name for line in lines} == {"logged"}
    assert await host.logs("logged", tail=-1, instance="somebody-else") == []

    from proto.wire.generated import slicewise_pb2 as pb

    request = pb.LogsRequest(
        function=pb.FunctionRef(namespace="openfaas-fn", name="logged"), instance=lines[0].instance, tail=1, follow=True
    )
    stream = host.stub.Logs(request, metadata=host.metadata)
    async with asyncio.timeout(HANG_S):
        assert (await stream.read()).text == "three"
        await host.call(url, b"four")
        assert (await stream.read()).text == "four"
    stream.cancel()


async def test_usage_is_measured(host: HostRig) -> None:
    await host.deploy("measured", OK)
    state = await host.until("measured", lambda f: f.replicas[0].memory_bytes > 0)
    assert state.replicas[0].memory_bytes > 1_000_000


async def test_a_killed_broker_is_replaced(host: HostRig) -> None:
    url = await host.deploy("brokerless", OK)
    port = int(url.rpartition(":")[2])
    broker = next(c for c in psutil.net_connections("tcp") if c.laddr.port == port and c.status == "LISTEN")
    os.kill(broker.pid, signal.SIGKILL)
    state = await host.until("brokerless", lambda f: f.replicas[0].restarts == 1 and f.replicas[0].status == "ready")
    assert (await host.call(f"http://{state.replicas[0].address}"))[1] == b"one"


async def test_a_killed_zygote_is_replaced(host: HostRig) -> None:
    await host.deploy("motherless", OK)
    assert host.process is not None
    for child in psutil.Process(host.process.pid).children():
        if "function" in child.cmdline():
            child.kill()
    state = await host.until("motherless", lambda f: f.replicas[0].restarts == 1 and f.replicas[0].status == "ready")
    assert (await host.call(f"http://{state.replicas[0].address}"))[1] == b"one"
