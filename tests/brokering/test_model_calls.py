"""Model calls through a real broker, runtime and host: bindings, retries, endings. Scheduler and door are scripted."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest
import pytest_asyncio

from proto.types.errors import SlicewiseError
from proto.wire import peers
from proto.wire.calls import read_token
from proto.wire.credentials import Trust
from proto.wire.generated import slicewise_pb2_grpc as rpc
from tests.brokering.scripted import ScriptedDoor, ScriptedScheduler, changes_state, fails, well
from tests.function_rig.rig import HANG_S, HostRig, shut

pytestmark = [pytest.mark.live, pytest.mark.asyncio(loop_scope="module")]

# The runtime's own channel, without torch's part: what counts here is what the broker makes of it.
HANDLER = """
    import os, threading
    from _slicewise import channel, context
    from _slicewise.errors import SlicewiseError

    def infer(token=None):
        fd = os.memfd_create("call")
        os.write(fd, b"question")
        call = context.call.get() if token is None else token
        header = {"op": "infer", "call": call, "model": "m", "method": "forward", "batch": 3, "bytes": 8, "layout": {}}
        try:
            answer, fds = channel.request(header, [fd])
        finally:
            os.close(fd)
        if not answer["ok"]:
            raise SlicewiseError(answer["error"]["code"], answer["error"]["message"])
        data = os.pread(fds[0], 100_000, 0)
        os.close(fds[0])
        return data.decode()

    def handle(event, context):
        path = event.path
        if path == "/none": return "no call"
        if path == "/twice": return infer() + infer()
        if path == "/caught":
            try:
                return infer()
            except SlicewiseError as error:
                return {"statusCode": 500, "body": "caught " + error.code}
        if path == "/threads":
            out = []
            threads = [threading.Thread(target=lambda: out.append(infer())) for _ in range(4)]
            [t.start() for t in threads]
            [t.join() for t in threads]
            return "".join(out)
        if path == "/unknown": return infer("")
        if path == "/register":
            model = {"digest": "d" * 64, "kind": "module", "class_name": "Net", "tensor_bytes": 5, "python": "3.11",
                     "torch": "2", "distributions": [["a", "1"]], "modules": []}
            first = channel.ask({"op": "register", "model": model, "probe": True})
            if first["needed"]:
                fd = os.memfd_create("package")
                os.write(fd, b"package")
                channel.ask({"op": "register", "model": model, "bytes": 7}, [fd])
                os.close(fd)
            return {"body": {"needed": first["needed"]}}
        return infer()
"""


@dataclass
class Stage:
    """A host with one GPU function, and those it believes to be scheduler and GPU manager."""

    rig: HostRig
    scheduler: ScriptedScheduler
    door: ScriptedDoor
    url: str = ""

    async def call(self, path: str = "/", **headers: str) -> tuple[int, str, dict[str, str]]:
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        status, body, answered = await self.rig.call(self.url + path, headers=sent)
        return status, body.decode(), {name.lower(): value for name, value in answered.items()}


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def whole(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stage]:
    rig = HostRig(tmp_path_factory.mktemp("gpu"))
    folder = tmp_path_factory.mktemp("door")
    folder.chmod(0o711)  # brokers are not root
    path = str(folder / "door.sock")
    trust = Trust.load(rig.trust)
    door = ScriptedDoor(path, trust)
    scheduler = ScriptedScheduler(rig.keys["bindings"], path)
    replicas = ("service:", "replica:")
    server = peers.server(trust, {"Calls": replicas, "RegisterModel": replicas, "Exchange": replicas})
    rpc.add_SchedulerServicer_to_server(scheduler, server)
    rpc.add_DoorServicer_to_server(door, server)
    address = f"127.0.0.1:{peers.bind(server, '127.0.0.1:0')}"
    await server.start()
    scheduler.door_address = address
    await rig.start(scheduler=address, door_path=path)
    stage = Stage(rig, scheduler, door)
    credential = rig.keys["replicas"].sign({"sub": "replica:model.openfaas-fn"})
    stage.url = await rig.deploy("model", HANDLER, gpu=True, credential=credential, env={"exec_timeout": "5s"})
    yield stage
    await shut(rig)
    await door.close()
    await server.stop(0)


@pytest.fixture
def stage(whole: Stage) -> Stage:
    """The same stage with nothing remembered."""
    whole.door.steps = [well]
    whole.scheduler.refuse = None
    whole.scheduler.node = "node-1"
    for remembered in (whole.door.asked, whole.door.payloads, whole.scheduler.places, whole.scheduler.released):
        remembered.clear()
    whole.scheduler.observed.clear()
    whole.scheduler.cancelled.clear()
    return whole


async def _until(condition: object) -> None:
    async with asyncio.timeout(HANG_S):
        while not condition():  # type: ignore[operator]  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_a_late_binding_is_made_used_told_and_released(stage: Stage) -> None:
    status, body, headers = await stage.call("/twice")
    assert (status, body) == (200, "answeranswer")
    (place,) = stage.scheduler.places
    assert (place.worker, place.late, place.batch) == ("model.openfaas-fn@r1", True, 3)
    first, second = stage.door.ops("infer")
    assert first["binding"] == second["binding"]
    assert "call" not in first
    assert 0 < second["deadline_s"] <= 5
    assert stage.door.payloads == [b"question", b"question"]
    assert headers["x-slicewise-slice"] == "s1"
    assert headers["x-slicewise-cache"] == "miss"
    assert float(headers["x-slicewise-queue-seconds"]) == pytest.approx(0.502)
    assert float(headers["x-slicewise-load-seconds"]) == pytest.approx(1.0)
    assert float(headers["x-slicewise-infer-seconds"]) == pytest.approx(0.25)
    await _until(lambda: stage.scheduler.released and stage.door.ops("end") and stage.scheduler.observed)
    assert stage.door.ops("end")[0]["binding"] == first["binding"]
    seen = stage.scheduler.observed[0]
    assert (seen.worker, seen.calls) == ("model.openfaas-fn@r1", 2)
    assert 0 < seen.gap_ns < seen.total_ns


async def test_an_early_binding_is_used_and_left_to_its_owner(stage: Stage) -> None:
    token, _ = stage.scheduler.binding("call-1", "model.openfaas-fn@r1", "s2")
    _, _, headers = await stage.call("/", X_Slicewise_Binding=token, X_Slicewise_Queued="1.5")
    assert stage.door.ops("infer")[0]["binding"] == token
    assert float(headers["x-slicewise-queue-seconds"]) == pytest.approx(1.75)
    await _until(lambda: stage.door.ops("end"))
    assert not stage.scheduler.places
    assert not stage.scheduler.released


async def test_an_early_binding_that_is_never_used_ends_all_the_same(stage: Stage) -> None:
    token, _ = stage.scheduler.binding("call-1", "model.openfaas-fn@r1", "s2")
    _, _, headers = await stage.call("/none", X_Slicewise_Binding=token)
    await _until(lambda: stage.door.ops("end"))
    assert "x-slicewise-slice" not in headers
    assert not stage.scheduler.observed


async def test_threads_of_one_invocation_share_one_binding(stage: Stage) -> None:
    status, body, _ = await stage.call("/threads")
    assert (status, body) == (200, "answer" * 4)
    assert len(stage.scheduler.places) == 1
    assert len({header["binding"] for header in stage.door.ops("infer")}) == 1
    await _until(lambda: stage.scheduler.released)


async def test_a_worker_that_died_is_avoided_by_the_next_attempt(stage: Stage) -> None:
    stage.door.steps = [fails("worker_died", repeatable=True), well]
    status, _, _ = await stage.call()
    assert status == 200
    first, second = stage.scheduler.places
    assert (list(first.avoid), list(second.avoid)) == ([], ["s1"])
    used = {header["binding"] for header in stage.door.ops("infer")}
    assert len(used) == 2
    await _until(lambda: {header["binding"] for header in stage.door.ops("end")} >= used)
    await _until(lambda: {read_token(token).id for token in used} <= set(stage.scheduler.released))


async def test_attempts_are_budgeted(stage: Stage) -> None:
    stage.door.steps = [fails("worker_died", repeatable=True)]
    status, body, headers = await stage.call()
    assert len(stage.door.ops("infer")) == 3
    assert (status, body) == (502, "It was worker_died.\n")
    assert headers["x-slicewise-error"] == "worker_died"


async def test_what_cannot_be_repeated_is_not(stage: Stage) -> None:
    stage.door.steps = [fails("worker_died", repeatable=False)]
    assert (await stage.call())[0] == 502
    assert len(stage.door.ops("infer")) == 1


async def test_nothing_is_repeated_after_state_changed(stage: Stage) -> None:
    stage.door.steps = [changes_state, fails("worker_died", repeatable=True)]
    status, body, _ = await stage.call("/twice")
    assert (status, body) == (502, "It was worker_died.\n")
    assert len(stage.door.ops("infer")) == 2


async def test_a_binding_that_has_ended_is_replaced(stage: Stage) -> None:
    stage.door.steps = [fails("binding_gone"), well]
    token, _ = stage.scheduler.binding("call-1", "model.openfaas-fn@r1", "s2")
    status, _, _ = await stage.call("/", X_Slicewise_Binding=token)
    assert status == 200
    assert [list(place.avoid) for place in stage.scheduler.places] == [["s2"]]
    await _until(lambda: stage.scheduler.released)


async def test_a_call_is_bound_anew_as_often_as_its_binding_is_taken_back(stage: Stage) -> None:
    """What runs before it may overrun more than once; that is no failure of the call's own."""
    stage.door.steps = [fails("binding_gone")] * 4 + [well]
    status, body, _ = await stage.call()
    assert (status, body) == (200, "answer")
    assert len(stage.scheduler.places) == 5


async def test_a_call_that_is_given_back_until_its_time_is_over_was_late_in_the_queue(stage: Stage) -> None:
    stage.door.steps = [fails("binding_gone")] * 100
    status, text, headers = await stage.call(X_Slicewise_Deadline="0.8")
    stage.door.steps = []
    assert status == 504
    assert headers["x-slicewise-error"] == "deadline_in_queue"
    assert "upstream_timeout left it 0.8 s" in text


@pytest.mark.parametrize(
    ("code", "status"), [("queue_full", 429), ("deadline_in_queue", 504), ("no_slice", 503), ("model_too_large", 507)]
)
async def test_the_schedulers_refusal_becomes_the_answers_status(stage: Stage, code: str, status: int) -> None:
    stage.scheduler.refuse = SlicewiseError(code, "Not now.", 7.0)
    answer = await stage.call()
    limit = " (exec_timeout is 5 s)" if code == "deadline_in_queue" else ""  # 504s name the limit
    assert answer[:2] == (status, f"Not now{limit}.\n")
    assert answer[2]["retry-after"] == "7"


async def test_a_handler_that_catches_the_error_answers_itself(stage: Stage) -> None:
    stage.door.steps = [fails("worker_died")]
    assert (await stage.call("/caught"))[:2] == (500, "caught worker_died")


async def test_a_door_that_goes_away_in_the_middle(stage: Stage) -> None:
    asked = asyncio.Event()

    async def silent(header: dict[str, object]) -> tuple[dict[str, object], bytes]:
        asked.set()
        await asyncio.sleep(60)
        return {"ok": True}, b""

    stage.door.steps = [silent, well]
    call = asyncio.create_task(stage.call())
    await asked.wait()
    stage.door.cut()
    status, body, _ = await call
    assert (status, body) == (200, "answer")
    assert len(stage.scheduler.places) == 2


async def test_a_client_that_leaves_takes_its_model_call_back(stage: Stage) -> None:
    asked = asyncio.Event()

    async def silent(header: dict[str, object]) -> tuple[dict[str, object], bytes]:
        asked.set()
        await asyncio.sleep(60)
        return {"ok": True}, b""

    stage.door.steps = [silent]
    call = asyncio.create_task(stage.call())
    await asked.wait()
    call.cancel()
    await _until(lambda: stage.door.ops("cancel") and stage.scheduler.released and stage.door.ops("end"))
    assert stage.door.ops("cancel")[0]["target"] == stage.door.ops("infer")[0]["id"]


async def test_a_client_that_leaves_takes_its_place_in_the_queue_back(stage: Stage) -> None:
    stage.scheduler.hold.clear()
    call = asyncio.create_task(stage.call())
    await _until(lambda: stage.scheduler.places)
    call.cancel()
    await asyncio.wait([call])
    stage.scheduler.hold.set()
    # Cancelled, or bound in that very moment and given back.
    await _until(lambda: stage.scheduler.cancelled or stage.scheduler.released)
    assert not stage.door.ops("infer")


async def test_a_call_of_no_request_takes_the_only_one_in_flight(stage: Stage) -> None:
    _, _, headers = await stage.call("/unknown")
    assert headers["x-slicewise-slice"] == "s1"
    assert len(stage.scheduler.places) == 1


async def test_calls_of_no_request_are_bound_by_themselves(stage: Stage) -> None:
    results = await asyncio.gather(*(stage.call("/unknown") for _ in range(4)))
    assert {status for status, _, _ in results} == {200}
    await _until(lambda: len(stage.scheduler.released) >= len(stage.scheduler.places))


async def test_another_nodes_door_is_asked_over_grpc(stage: Stage) -> None:
    async def large(header: dict[str, object]) -> tuple[dict[str, object], bytes]:
        answer, _ = await well(header)
        return {**answer, "bytes": 50_000}, b"z" * 50_000

    stage.scheduler.node = "node-2"
    stage.door.steps = [large]
    status, body, _ = await stage.call()
    assert (status, body) == (200, "z" * 50_000)
    assert stage.door.payloads == [b"question"]
    await _until(lambda: stage.door.ops("end"))


async def test_registration_puts_the_package_once(stage: Stage) -> None:
    for needed in (True, False):
        _, body, _ = await stage.call("/register")
        assert json.loads(body) == {"needed": needed}
    assert stage.door.packages == {"d" * 64: b"package"}
    described = stage.scheduler.registered[-1]
    assert (described.worker, described.environment) == ("model.openfaas-fn@r1", "base")
    stage.scheduler.refuse = SlicewiseError("model_too_large", "5 bytes do not fit 4.")
    assert (await stage.call("/register"))[:2] == (507, "5 bytes do not fit 4.\n")


async def test_a_process_without_the_runtime_is_told_of(stage: Stage) -> None:
    """A GPU function whose own server starts python in isolated mode serves, and describe shows what is wrong."""
    server = """
        import http.server, os
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                self.send_response(200); self.end_headers(); self.wfile.write(b"ok")
        http.server.ThreadingHTTPServer(("127.0.0.1", int(os.environ["PORT"])), Handler).serve_forever()
    """
    dockerfile = 'FROM x\nENV fprocess="python -I server.py" mode=http upstream_url=http://127.0.0.1:$PORT\n'
    await stage.rig.deploy("isolated", {"server.py": server, "Dockerfile": dockerfile}, gpu=True)
    state = await stage.rig.until("isolated", lambda f: bool(f.replicas[0].why))
    assert state.replicas[0].status == "ready"
    assert "python started with -I" in state.replicas[0].why


async def test_no_caller_learns_what_models_were_called_for(stage: Stage) -> None:
    # Only a host told to `report_calls`, as `slicewise check` has it, answers there itself.
    assert (await stage.call("/_/calls"))[1] == "answer"
