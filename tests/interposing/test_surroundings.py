"""The runtime's manners: what it leaves alone, what it says without a broker, and what it shares with the wire."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from proto.wire import frames
from tests.interposing import functions
from tests.running.stand_in import StandIn

sys.path.insert(0, str(functions.RUNTIME))
from _slicewise import frames as runtime_frames

sys.path.remove(str(functions.RUNTIME))


def python(code: str, folder: Path, **environment: str) -> str:
    """What a fresh Python with the runtime on its path prints."""
    env = {key: value for key, value in os.environ.items() if not key.startswith("SLICEWISE_")}
    env.update(PYTHONPATH=f"{functions.RUNTIME}:{folder}", PYTHONDONTWRITEBYTECODE="1", **environment)
    return subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=60).stdout


def test_a_function_without_the_flag_is_untouched(tmp_path: Path) -> None:
    code = (
        "import sys, torch; print('_slicewise' in sys.modules, torch.cuda.is_available(), hasattr(torch.tensor, 'x'))"
    )
    printed = python(code.replace("'x'", "'__wrapped__'"), tmp_path, SLICEWISE_SOCKET="/nowhere")
    assert printed == "False False False\n"


def test_the_images_own_sitecustomize_still_runs(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import builtins\nbuiltins.theirs = __file__\n")
    assert python("print(theirs)", tmp_path) == f"{tmp_path}/sitecustomize.py\n"
    assert (
        python("print(theirs)", tmp_path, SLICEWISE_GPU="1", SLICEWISE_SOCKET="/x") == f"{tmp_path}/sitecustomize.py\n"
    )


def test_without_a_broker_the_first_word_says_so(tmp_path: Path) -> None:
    code = "import _slicewise\ntry:\n    _slicewise.import_finished()\nexcept Exception as e:\n    print(e.code, e)"
    printed = python(code, tmp_path, SLICEWISE_GPU="1", SLICEWISE_SOCKET=f"{tmp_path}/none.sock")
    assert printed.startswith("unavailable Slicewise's broker does not answer")


def test_a_process_that_has_torch_already_is_patched_when_told(tmp_path: Path, stand_in: StandIn) -> None:
    code = f"""
import os, torch
os.environ.update(SLICEWISE_GPU="1", SLICEWISE_SOCKET={stand_in.socket_path!r})
import _slicewise
_slicewise.activate()
_slicewise.activate()
model = torch.nn.Identity().cuda()
_slicewise.import_finished()
print(torch.cuda.is_available(), model(torch.ones(1)).item())
"""
    assert python(code, tmp_path) == "True 1.0\n"
    assert [said["op"] for said in stand_in.said] == ["hello", "register", "register", "infer"]


def test_torch_answers_as_with_one_gpu(tmp_path: Path, stand_in: StandIn) -> None:
    functions.write(
        tmp_path,
        handler="""
        import torch
        def answer():
            torch.set_default_device("cuda")
            with torch.device("cuda"):
                made = torch.zeros(2)
            with torch.device("meta"):
                meta = torch.zeros(2)
            with torch.cuda.device(0), torch.autocast("cuda"):
                start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
                start.record()
                end.record()
            torch.cuda.synchronize()
            torch.cuda.manual_seed_all(3)
            x = torch.ones(2, device="cuda:0").to("cuda", non_blocking=True).cuda().pin_memory()
            like = torch.zeros_like(x, device=torch.device("cuda", 0)).to(x)
            scripted = torch.jit.script(lambda_like)
            return [
                torch.cuda.is_available(), torch.cuda.device_count(), torch.cuda.current_device(),
                torch.cuda.get_device_name(), torch.cuda.get_device_properties(0).total_memory > 0,
                torch.cuda.memory_allocated(), made.sum().item(), meta.device.type, x.sum().item(), like.tolist(),
                end.elapsed_time(start) <= 0, scripted(3).tolist(), torch.cuda.get_device_capability(),
            ]

        def lambda_like(n: int) -> torch.Tensor:
            return torch.zeros(n) + torch.arange(n)
        """,
    )
    found = functions.run(tmp_path, stand_in)
    assert found[:4] == [True, 1, 0, "Slicewise slice"]
    assert found[4:12] == [True, 0, 0.0, "meta", 2.0, [0.0, 0.0], True, [0.0, 1.0, 2.0]]


def test_a_fork_opens_its_own_connection(tmp_path: Path, stand_in: StandIn) -> None:
    functions.write(
        tmp_path,
        handler="""
        import os, torch
        model = torch.nn.Linear(2, 1, bias=False)
        torch.nn.init.ones_(model.weight)
        model.cuda()
        def answer():
            read, write = os.pipe()
            pid = os.fork()
            value = str(model(torch.ones(1, 2)).item()).encode()
            if pid == 0:
                os.write(write, value)
                os._exit(0)
            os.waitpid(pid, 0)
            return [value.decode(), os.read(read, 100).decode()]
        """,
    )
    assert functions.run(tmp_path, stand_in) == ["2.0", "2.0"]
    pids = {said["pid"] for said in stand_in.said if said["op"] == "hello"}
    assert len(pids) == 2


def test_web_frameworks_bring_the_token(tmp_path: Path, stand_in: StandIn) -> None:
    functions.write(
        tmp_path,
        handler="""
        import flask, torch
        app = flask.Flask("f")
        model = torch.nn.Identity().cuda()
        @app.route("/")
        def index():
            return str(model(torch.ones(1)).item())
        def answer():
            client = app.test_client()
            return [client.get("/", headers={"X-Slicewise-Call": token}).text for token in ("t1", "t2")]
        """,
    )
    assert functions.run(tmp_path, stand_in) == ["1.0", "1.0"]
    assert [call["call"] for call in stand_in.calls()] == ["t1", "t2"]


@pytest.mark.parametrize("header", [{}, {"id": 1, "op": "x", "text": "\u00e9\n", "list": [1, 2.5, None]}])
def test_frames_of_both_sides_are_the_same(header: dict[str, object], tmp_path: Path) -> None:
    assert runtime_frames.encode(header) == frames.encode(header)
    assert (runtime_frames.MAX_HEADER_BYTES, runtime_frames.MAX_FDS) == (frames.MAX_HEADER_BYTES, frames.MAX_FDS)
    one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with one, other, (tmp_path / "f").open("w") as file:
        for sender, receiver in ((runtime_frames, frames), (frames, runtime_frames)):
            sender.send(one, header, [file.fileno()])
            got, fds = receiver.receive(other)
            assert got == header
            assert os.path.samestat(os.fstat(fds[0]), os.fstat(file.fileno()))
            assert not os.get_inheritable(fds[0])
            os.close(fds[0])
            sender.send(one, header)
            assert receiver.receive(other) == (header, [])


def test_both_sides_close_what_came_with_no_frame_and_say_the_end(tmp_path: Path) -> None:
    for module in (frames, runtime_frames):
        one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with other, (tmp_path / "f").open("w") as file:
            before = len(os.listdir("/proc/self/fd"))
            socket.send_fds(one, [b"no frame"], [file.fileno()])
            with pytest.raises(module.FrameError, match="not JSON"):
                module.receive(other)
            assert len(os.listdir("/proc/self/fd")) == before
            one.close()
            with pytest.raises(module.FrameError, match="closed the connection"):
                module.receive(other)


def test_headers_that_do_not_fit_are_refused_alike() -> None:
    for module in (frames, runtime_frames):
        with pytest.raises(module.FrameError, match="over the limit"):
            module.encode({"text": "x" * module.MAX_HEADER_BYTES})
        for bad in (b"[]", b"{", b"\xff"):
            with pytest.raises(module.FrameError):
                module.decode(bad)


def test_the_runtime_is_valid_for_older_pythons() -> None:
    import ast

    for path in functions.RUNTIME.rglob("*.py"):
        ast.parse(path.read_text(), feature_version=(3, 9))
