"""What a handler changes after its model was registered holds on the slice, or is refused by name."""

from __future__ import annotations

from pathlib import Path

from tests.interposing import functions
from tests.running.stand_in import StandIn

_NET = """
import os
import torch
from torch import nn

class Options:
    def __init__(self):
        self.scale = 1.0
        self.names = ["a"]

THRESHOLD = float(os.environ.get("THRESHOLD", "0.5"))
LIMITS = {"low": 0}
LIMITS["high"] = len(os.listdir("."))

class Part(nn.Module):
    def __init__(self, options):
        super().__init__()
        self.options = options
        self.bias = 0.0
        self.register_buffer("mask", torch.ones(2))
    def forward(self, x):
        return x * self.options.scale * self.mask + self.bias + len(self.options.names)

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.options = Options()
        self.part = Part(self.options)
        self.linear = nn.Linear(2, 2)
        self.drop = nn.Dropout(0.5)
        self.count = 0
    def forward(self, x):
        self.count += 1
        return self.drop(self.linear(self.part(x))) + THRESHOLD + LIMITS["high"] + self.count * 100

torch.manual_seed(1)
x = torch.ones(1, 2)
"""


def digests(stand_in: StandIn) -> set[str]:
    """Of the models that the handler said it has, whether they were known or not."""
    return {said["model"]["digest"] for said in stand_in.said if said["op"] == "register"}


def both(folder: Path, stand_in: StandIn, body: str, **environment: str) -> None:
    """The handler gives the same on the slice and in its own process."""
    handler = "from net import *\nimport net\n" + body
    functions.write(folder, net=_NET, handler=handler)
    here = functions.run(folder, None, **environment)
    (folder / "handler.py").write_text(handler.replace("model = Net()", 'model = Net().to("cuda")'))
    assert functions.run(folder, stand_in, **environment) == here


def test_attributes_of_the_model_and_of_its_parts(tmp_path: Path, stand_in: StandIn) -> None:
    both(
        tmp_path,
        stand_in,
        """
model = Net()
model.eval()
def answer():
    found = [model(x).tolist()]
    model.part.bias = 3.0
    found.append(model(x).tolist())
    model.part.mask = torch.tensor([1.0, 0.0])
    model.extra = [1, 2]
    found.append(model(x).tolist())
    model.part.bias = 0.0
    found.append(model(x).tolist())
    del model.extra
    found.append(model(x).tolist())
    return found
""",
    )
    assert len(digests(stand_in)) == 1


def test_what_shared_objects_hold(tmp_path: Path, stand_in: StandIn) -> None:
    both(
        tmp_path,
        stand_in,
        """
model = Net()
model.eval()
def answer():
    found = [model(x).tolist()]
    model.options.scale = 2.0
    found.append(model(x).tolist())
    model.options.names.append("b")
    found.append(model(x).tolist())
    model.options.scale = 1.0
    found.append(model(x).tolist())
    return found
""",
    )
    assert len(digests(stand_in)) == 1


def test_values_that_the_code_reads(tmp_path: Path, stand_in: StandIn) -> None:
    both(
        tmp_path,
        stand_in,
        """
model = Net()
model.eval()
def answer():
    found = [model(x).tolist()]
    net.THRESHOLD = 4.0
    found.append(model(x).tolist())
    net.LIMITS["high"] = 7
    found.append(model(x).tolist())
    return found
""",
        THRESHOLD="0.25",
    )


def test_a_value_from_the_environment_makes_another_model(tmp_path: Path, stand_in: StandIn) -> None:
    body = "model = Net()\nmodel.eval()\ndef answer():\n    return model(x).tolist()\n"
    both(tmp_path, stand_in, body, THRESHOLD="1")
    both(tmp_path, stand_in, body, THRESHOLD="2")
    assert len(digests(stand_in)) == 2


def test_modes_of_the_model_and_of_parts(tmp_path: Path, stand_in: StandIn) -> None:
    both(
        tmp_path,
        stand_in,
        """
model = Net()
model.drop.p = 1.0
def answer():
    found = [model(x).tolist()]
    model.eval()
    found.append(model(x).tolist())
    model.drop.train()
    found.append(model(x).tolist())
    model.train()
    model.drop.eval()
    found.append(model(x).tolist())
    return found
""",
    )


def test_another_part_or_parameter_makes_another_model(tmp_path: Path, stand_in: StandIn) -> None:
    both(
        tmp_path,
        stand_in,
        """
model = Net()
model.eval()
def answer():
    found = [model(x).tolist()]
    model.count = 0
    torch.manual_seed(5)
    model.linear = nn.Linear(2, 2)
    found.append(model(x).tolist())
    model.count = 0
    model.linear.weight = nn.Parameter(torch.ones(2, 2))
    found.append(model(x).tolist())
    model.count = 0
    model.part.register_buffer("mask", torch.zeros(2))
    model.activation = nn.Tanh()
    found.append(model(x).tolist())
    return found
""",
    )
    assert len(digests(stand_in)) == 4


def test_changes_are_gone_with_the_invocation(tmp_path: Path, stand_in: StandIn) -> None:
    functions.write(
        tmp_path,
        net=_NET,
        handler="""
        from net import *
        import _slicewise, net
        model = Net().to("cuda").eval()
        def answer():
            found = []
            for token, bias, threshold in (("one", 3.0, 9.0), ("two", 0.0, 0.5), ("three", 3.0, 9.0)):
                _slicewise.call_started(token)
                model.part.bias, net.THRESHOLD = bias, threshold
                found.append(round((model(x) - model.part.bias).sum().item(), 3))
                _slicewise.call_finished()
            return found
        """,
    )
    one, two, three = functions.run(tmp_path, stand_in)
    assert one == three
    assert one != two


def test_a_seed_holds_for_the_invocation_that_sets_it(tmp_path: Path, stand_in: StandIn) -> None:
    both(
        tmp_path,
        stand_in,
        """
class Noise(nn.Module):
    def forward(self, x):
        return x + torch.randn(2)
model = Noise().to("cuda") if torch.cuda.is_available() else Noise()
def answer():
    torch.manual_seed(7)
    found = [model(x).tolist(), model(x).tolist()]
    torch.cuda.manual_seed_all(8) if torch.cuda.is_available() else torch.manual_seed(8)
    return [*found, model(x).tolist()]
""",
    )


def test_a_generator_for_cuda_goes_along(tmp_path: Path, stand_in: StandIn) -> None:
    functions.write(
        tmp_path,
        handler="""
        import torch
        from torch import nn
        class Noise(nn.Module):
            def forward(self, x, generator):
                return torch.randn(2, generator=generator, device="cuda") + x
        model = Noise().to("cuda")
        def answer():
            generator = torch.Generator(device="cuda").manual_seed(3)
            here = torch.randn(2, generator=torch.Generator(device="cuda").manual_seed(3), device=generator.device)
            found = model(torch.zeros(2), generator)
            return [isinstance(generator, torch.Generator), generator.device.type, bool(torch.equal(here, found))]
        """,
    )
    assert functions.run(tmp_path, stand_in) == [True, "cuda", True]


def test_what_cannot_be_interposed_names_the_call_and_the_way_out(tmp_path: Path, stand_in: StandIn) -> None:
    functions.write(
        tmp_path,
        net=_NET,
        handler="""
        import threading
        from net import *
        model = Net().to("cuda").eval()
        moved = nn.Sequential(nn.Linear(2, 2)).to("cuda")  # registered when the import is over
        try:
            moved[0].register_forward_hook(lambda *seen: None)
            refused = ""
        except Exception as error:
            refused = str(error)
        def attempt(action):
            try:
                action()
            except Exception as error:
                return [type(error).__name__, str(error)]
            return ["nothing", ""]
        def edit():
            with torch.no_grad():
                model.linear.weight.add_(1)
        def edit_data():
            model.linear.weight.data.mul_(2)
        def set_data():
            model.linear.weight.data = torch.zeros(2, 2)
        def answer():
            model(x)
            tried = {
                "forward_hook": attempt(lambda: model.linear.register_forward_hook(print)),
                "backward": attempt(lambda: model(x).sum().backward()),
                "grad": attempt(lambda: torch.autograd.grad(model(x).sum(), x)),
                "add_": attempt(edit), "mul_": attempt(edit_data), "data": attempt(set_data),
                "lock": attempt(lambda: (setattr(model, "key", threading.Lock()), model(x))),
            }
            del model.key
            return [tried, model(x).shape, refused]
        """,
    )
    tried, shape, refused = functions.run(tmp_path, stand_in)
    assert shape == [1, 2]
    assert "register_forward_hook()" in refused
    for name, (kind, text) in tried.items():
        assert kind == "SlicewiseError", (name, kind, text)
        assert "Slicewise cannot carry" in text, (name, text)
    assert "register_forward_hook()" in tried["forward_hook"][1]
    assert "backward()" in tried["backward"][1]
    assert "attribute 'key'" in tried["lock"][1]


def test_a_torchscript_attribute_makes_another_model(tmp_path: Path, stand_in: StandIn) -> None:
    functions.write(
        tmp_path,
        handler="""
        import io
        import torch
        class Scale(torch.nn.Module):
            factor: float
            def __init__(self):
                super().__init__()
                self.factor = 2.0
            def forward(self, x):
                return x * self.factor
        file = io.BytesIO()
        torch.jit.save(torch.jit.script(Scale()), file)
        file.seek(0)
        model = torch.jit.load(file, map_location="cuda")
        def answer():
            found = [model(torch.ones(1)).item()]
            model.factor = 5.0
            found.append(model(torch.ones(1)).item())
            return found
        """,
    )
    assert functions.run(tmp_path, stand_in) == [2.0, 5.0]
