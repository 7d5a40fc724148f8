"""`slicewise check` on real handlers: one private platform for all of them, and the command itself twice."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from slicewise.checking import document, trial
from slicewise.checking.platform import PrivatePlatform
from slicewise.checking.request import Request

pytestmark = [pytest.mark.live, pytest.mark.timeout(240)]

SLICE_BYTES = 128 << 20
HANG_S = 180.0
SLICEWISE = Path(sys.executable).parent / "slicewise"

GOOD = """
import torch
torch.manual_seed(0)

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(4, 8), torch.nn.Linear(8, 2)
    def encode(self, x):
        return self.first(x)
    def forward(self, x):
        return self.second(self.first(x))

model = Net().to("cuda")
spare = torch.nn.Linear(3, 3).to("cuda")

def handle(event, context):
    x = torch.tensor([[float(word) for word in event.body.split()]]).to("cuda")
    return {"statusCode": 200, "body": {"encoded": model.encode(x).tolist(), "result": model(x).tolist()}}
"""
OTHERWISE = """
import os, torch
model = torch.nn.Linear(1, 1).to("cuda")
def handle(event, context):
    return {"statusCode": 200, "body": {"name": os.environ.get("OPENFAAS_NAME", "nobody")}}
"""
BACKWARD = """
import torch
model = torch.nn.Linear(4, 2).to("cuda")

def step(x):
    model(x).sum().backward()

def handle(event, context):
    step(torch.ones(1, 4))
    return {"statusCode": 200}
"""
MISSING = """
import torch
import skimage.transform
def handle(event, context):
    return {"statusCode": 200}
"""
LARGE = """
import torch
model = torch.nn.Linear(6000, 6000).to("cuda")
def handle(event, context):
    return {"statusCode": 200, "body": model(torch.ones(1, 6000))[0, 0].tolist()}
"""
NONE = """
import torch
def handle(event, context):
    return {"statusCode": 200, "body": torch.ones(2).tolist()}
"""

Check = Callable[[str], dict[str, Any]]


@pytest.fixture(scope="module")
def check(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Check]:
    with PrivatePlatform(f"1x1g:{SLICE_BYTES}B", 60.0) as platform:

        def one(code: str) -> dict[str, Any]:
            folder = tmp_path_factory.mktemp("handler")
            (folder / "handler.py").write_text(code)
            request = Request(folder, b"1 2 3 4", calls=2)
            found = trial.run(platform, request, lambda _: None, f"f{time.monotonic_ns()}")
            told = document.make(found, [(1, SLICE_BYTES), (1, 1 << 20)], "the test")
            json.dumps(told)
            return told

        yield one
    assert not platform.layout.root.exists()


def test_an_answer_that_only_the_platform_gives_is_shown(check: Check) -> None:
    told = check(OTHERWISE)
    assert not told["ok"]
    assert [failure["stage"] for failure in told["failures"]] == ["output"]
    assert told["outputs"]["difference"].startswith('Call 1, $.name: "nobody" locally, "f')
    assert [note["note"].partition(" ")[0] for note in told["notes"]] == ["Linear"]  # was never called
    assert told["models"][0]["called"] is False


def test_backward_is_named_with_the_way_out_and_the_handlers_own_lines(check: Check) -> None:
    told = check(BACKWARD)
    (failure,) = told["failures"]
    assert "backward()" in failure["error"]
    assert "train" in failure["fix"].lower()
    assert [(frame["file"], frame["function"]) for frame in failure["frames"]] == [
        ("handler.py", "handle"),
        ("handler.py", "step"),
    ]
    assert told["models"][0]["methods"][0]["calls"] == 2  # the forward call before it ran on the slice


def test_a_missing_package_is_named_as_requirements_has_it(check: Check) -> None:
    (failure,) = check(MISSING)["failures"]
    assert (failure["stage"], failure["error"]) == ("import", "ModuleNotFoundError: No module named 'skimage'")
    assert "`scikit-image`" in failure["fix"]
    assert [(frame["file"], frame["line"]) for frame in failure["frames"]] == [("handler.py", 3)]


def test_a_model_that_fits_no_slice_is_told_with_both_sizes(check: Check) -> None:
    told = check(LARGE)
    (failure,) = told["failures"]
    assert failure["stage"] == "memory"
    assert f"{6001 * 6000 * 4:,}" in failure["error"]
    assert f"{SLICE_BYTES:,}" in failure["error"]
    assert told["memory"]["fits"] is False


def test_a_handler_without_a_model_is_fine_and_told_so(check: Check) -> None:
    told = check(NONE)
    assert told["ok"]
    assert told["interposed"]
    assert told["models"] == []
    assert told["notes"][0]["note"].startswith("No model was found")
    assert told["outputs"]["same"] is True
    assert told["memory"]["fits"] is None


@pytest.fixture
def own_tmp() -> Iterator[Path]:
    """A TMPDIR that functions' users can pass; whatever is left in it was left behind."""
    folder = Path(tempfile.mkdtemp(prefix="slicewise-test-"))
    folder.chmod(0o711)
    yield folder
    shutil.rmtree(folder)


def test_the_command_tells_everything_as_json_and_leaves_nothing(own_tmp: Path, tmp_path: Path) -> None:
    (tmp_path / "handler.py").write_text(GOOD)
    (tmp_path / "body").write_text("1 2 3 4")
    arguments = ["check", str(tmp_path), "--input", str(tmp_path / "body"), "--calls", "3", "--json"]
    done = _run(*arguments, "--slices", "2x1g:256MiB,1x1g:1MiB", tmp=own_tmp)
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads(done.stdout)
    assert told["ok"]
    assert told["failures"] == []
    models = {model["class"]: model for model in told["models"]}
    assert {method["method"]: method["calls"] for method in models["Net"]["methods"]} == {"encode": 3, "forward": 3}
    assert models["Net"]["bytes"] == 4 * (4 * 8 + 8 + 8 * 2 + 2)
    assert (models["Net"]["tensors"], models["Net"]["kind"]) == (4, "module")
    assert models["Linear"]["methods"] == []
    assert "Linear" in told["notes"][0]["note"]
    memory = told["memory"]
    assert 0 < memory["held_bytes"] <= memory["peak_bytes"] < 256 << 20
    assert [item["fits"] for item in memory["slices"]] == [True, True, False]
    assert (told["outputs"]["compared"], told["outputs"]["same"]) == (3, True)
    seconds = told["seconds"]
    assert all(seconds[key] is not None for key in seconds)
    assert seconds["cold_load"] <= seconds["cold"]
    assert 0 < seconds["import_interposition_share"] <= 1
    assert list(own_tmp.iterdir()) == []


def test_an_interrupted_check_takes_its_platform_down(own_tmp: Path, tmp_path: Path) -> None:
    (tmp_path / "handler.py").write_text(NONE)
    running = subprocess.Popen(
        [SLICEWISE, "check", str(tmp_path)],
        env=_environment(own_tmp),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        launcher = _launcher(own_tmp, running)
        processes = [launcher, *launcher.children(recursive=True)]
        running.send_signal(signal.SIGINT)
        assert running.wait(HANG_S) == 1
    finally:
        running.kill()
        running.wait()
    assert list(own_tmp.iterdir()) == []
    assert not [process for process in processes if process.is_running()]


def _launcher(folder: Path, running: subprocess.Popen[bytes]) -> psutil.Process:
    """The launcher of the check, once it has started something."""
    deadline = time.monotonic() + HANG_S
    while time.monotonic() < deadline and running.poll() is None:
        for file in folder.glob("slicewise-check-*/launcher.json"):
            board = json.loads(file.read_text() or "{}")
            if any(entry["pid"] for entry in board.get("processes", {}).values()):
                return psutil.Process(board["pid"])
        time.sleep(0.02)
    raise AssertionError("the check started nothing")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["no-such-folder"], "no-such-folder is not a folder"),
        ([".", "--input", "no-such-file"], "--input: no-such-file"),
        ([".", "--header", "nonsense"], "--header: 'nonsense'"),
        ([".", "--slices", "many"], "slices: 'many'"),
    ],
)
def test_bad_input_is_refused_before_anything_starts(
    own_tmp: Path, tmp_path: Path, arguments: list[str], words: str
) -> None:
    done = _run("check", *arguments, tmp=own_tmp, cwd=tmp_path)
    assert done.returncode == 2
    assert words in done.stderr
    assert list(own_tmp.iterdir()) == []


def _environment(tmp: Path) -> dict[str, str]:
    return {**os.environ, "TMPDIR": str(tmp), "SLICEWISE_STATE_DIR": str(tmp / "nobody's")}


def _run(*arguments: str, tmp: Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [SLICEWISE, *arguments],
        env=_environment(tmp),
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=False,
    )
