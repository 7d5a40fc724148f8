"""What is registered, once, as what, and what stays behind in the user's process."""

from __future__ import annotations

import zipfile
from io import BytesIO
from pathlib import Path
from typing import Any

from gpu_manager.worker.sharing import package
from tests.interposing import functions
from tests.running.stand_in import StandIn


def registered(stand_in: StandIn) -> list[dict[str, Any]]:
    """The models that were registered, probes left out."""
    return [said["model"] for said in stand_in.said if said["op"] == "register" and not said.get("probe")]


def sources(path: Path) -> dict[str, str]:
    """The sources in a package."""
    with path.open("rb") as file:
        manifest, start = package.read_manifest(file.fileno())
        offset, size = manifest["sources"]
        file.seek(start + offset)
        archive = zipfile.ZipFile(BytesIO(file.read(size)))
    return {name: archive.read(name).decode() for name in archive.namelist()}


_PARTS = """
import torch
from torch import nn

open("imported", "a").write("x")

class Part(nn.Module):
    SIZES = {"a": 1, "b": 2, "c": 3}
    def __init__(self):
        super().__init__()
        self.options = {"zeta": 1, "alpha": {"x", "y", "z", "w"}}
        self.linear = nn.Linear(4, 4)
    def forward(self, x):
        return self.linear(x) + SHIFT

SHIFT = 1
model = None
"""


def test_replicas_register_one_model_whatever_their_hash_seed(tmp_path: Path, stand_in: StandIn) -> None:
    handler = """
    import torch
    from parts import Part
    torch.manual_seed(1)
    model = Part().cuda()
    def answer():
        return model(torch.ones(1, 4)).tolist()
    """
    functions.write(tmp_path, parts=_PARTS, handler=handler)
    first = functions.run(tmp_path, stand_in, PYTHONHASHSEED="1")
    second = functions.run(tmp_path, stand_in, PYTHONHASHSEED="77")
    assert first == second
    assert len(registered(stand_in)) == 1
    probes = [said["model"]["digest"] for said in stand_in.said if said["op"] == "register"]
    assert len(set(probes)) == 1
    third = functions.run(tmp_path, stand_in, SLICEWISE_BUNDLE="another")
    assert third == first
    assert len({model["digest"] for model in registered(stand_in)}) == 2


def test_only_what_the_class_needs_of_a_file_runs_in_the_worker(tmp_path: Path, stand_in: StandIn) -> None:
    functions.write(
        tmp_path,
        handler="""
        import torch
        import helpers
        from shapes.wide import Wide

        raise_if_imported_elsewhere = open("weights.txt").read()
        FACTOR = 3

        class Net(Wide):
            @staticmethod
            def activation(x):
                return helpers.twice(x) * FACTOR

        model = Net()
        model.to("cuda")

        def answer():
            return model(torch.ones(2)).tolist()
        """,
        helpers="def twice(x):\n    return 2 * x\n",
        shapes__slash__wide="""
        from torch import nn
        from .names import NAME
        unused = open("weights.txt").read()
        class Wide(nn.Module):
            def forward(self, x):
                return self.activation(x) + len(NAME)
        """,
        shapes__slash__names="NAME = 'four'\nOTHER = open('weights.txt')\n",
    )
    (tmp_path / "weights.txt").write_text("w")
    assert functions.run(tmp_path, stand_in) == [10.0, 10.0]
    (model,) = registered(stand_in)
    assert model["class_name"] == "Net"
    found = sources(stand_in.package(model["digest"]))
    assert set(found) == {"handler.py", "helpers.py", "shapes/__init__.py", "shapes/wide.py", "shapes/names.py"}
    assert not any("weights.txt" in text for text in found.values())
    original = (tmp_path / "handler.py").read_text().splitlines()
    kept = found["handler.py"].splitlines()
    assert kept[original.index("FACTOR = 3")] == "FACTOR = 3"


def test_two_models_of_one_file_one_feeding_the_other(tmp_path: Path, stand_in: StandIn) -> None:
    functions.write(
        tmp_path,
        handler="""
        import torch
        from torch import nn

        class First(nn.Module):
            def forward(self, x):
                return x * TWO

        class Second(nn.Module):
            def forward(self, x):
                return x + shift(x)

        TWO = 2
        def shift(x):
            return TWO + 1

        first, second = First().cuda(), Second().cuda()
        def answer():
            return second(first(torch.ones(2))).tolist()
        """,
    )
    assert functions.run(tmp_path, stand_in) == [5.0, 5.0]
    assert sorted(model["class_name"] for model in registered(stand_in)) == ["First", "Second"]


def test_a_child_that_was_moved_first_belongs_to_its_parent(tmp_path: Path, stand_in: StandIn) -> None:
    functions.write(
        tmp_path,
        handler="""
        import torch
        from torch import nn

        class Parent(nn.Module):
            def __init__(self):
                super().__init__()
                self.child = nn.Linear(3, 3).cuda()
                self.warm = self.child(torch.ones(1, 3)).shape
            def forward(self, x):
                return self.child(x).sum()

        model = Parent().cuda()
        def answer():
            expected = torch.nn.functional.linear(torch.ones(1, 3), model.child.weight.cpu(), model.child.bias.cpu())
            return torch.allclose(model(torch.ones(1, 3)), expected.sum())
        """,
    )
    assert functions.run(tmp_path, stand_in) is True
    assert [model["class_name"] for model in registered(stand_in)] == ["Linear", "Parent"]
    assert stand_in.calls()[-1]["method"] == "forward"


def test_weights_leave_the_process_and_come_back_when_read(tmp_path: Path, stand_in: StandIn) -> None:
    functions.write(
        tmp_path,
        handler="""
        import copy, io, torch
        from torch import nn

        def anonymous():
            with open("/proc/self/status") as file:
                return next(int(line.split()[1]) for line in file if line.startswith("RssAnon"))

        before = anonymous()
        torch.manual_seed(0)
        model = nn.Linear(4096, 4096).eval()
        reference = model.weight.detach()[:2, :2].tolist()
        model.cuda()

        def answer():
            after = anonymous()
            copied = copy.deepcopy(model)
            file = io.BytesIO()
            torch.save(model.state_dict(), file)
            file.seek(0)
            saved = torch.load(file, weights_only=False)
            x = torch.ones(1, 4096)
            same = torch.equal(copied(x), model(x))
            back = model.cpu()
            return {
                "grown_kib": after - before,
                "remote": str(model.weight.device) == "cpu" and back is model,
                "copied": copied.weight[:2, :2].tolist() == reference,
                "saved": saved["weight"][:2, :2].tolist() == reference,
                "back": model.weight[:2, :2].tolist() == reference and type(model.weight) is nn.Parameter,
                "same": same,
                "calls": torch.equal(copied(x), model(x)),
                "printed": repr(copied),
            }
        """,
    )
    found = functions.run(tmp_path, stand_in)
    assert found.pop("grown_kib") < 40_000
    assert found.pop("printed") == "Linear(in_features=4096, out_features=4096, bias=True)"
    assert all(found.values()), found


def test_a_conversion_after_registration_registers_anew(tmp_path: Path, stand_in: StandIn) -> None:
    functions.write(
        tmp_path,
        handler="""
        import torch
        from torch import nn
        model = nn.Linear(2, 2)
        model.cuda()
        def answer():
            first = model(torch.ones(1, 2))
            model.double()
            second = model(torch.ones(1, 2).double())
            model.load_state_dict({"weight": torch.zeros(2, 2).double(), "bias": torch.ones(2).double()})
            return [str(first.dtype), str(second.dtype), model(torch.ones(1, 2).double()).tolist()]
        """,
    )
    assert functions.run(tmp_path, stand_in) == ["torch.float32", "torch.float64", [[1.0, 1.0]]]
    assert len(registered(stand_in)) == 3


def test_what_cannot_be_carried_says_what_and_what_to_do(tmp_path: Path, stand_in: StandIn) -> None:
    functions.write(
        tmp_path,
        handler="""
        import threading, torch
        from torch import nn

        class Locked(nn.Module):
            def __init__(self):
                super().__init__()
                self.guard = threading.Lock()
            def forward(self, x):
                return x

        good = nn.Linear(2, 2).cuda()
        def caught(call):
            try:
                call()
            except RuntimeError as error:
                return [type(error).__name__, getattr(error, "code", ""), str(error)]
        def answer():
            locked = Locked().cuda()
            return [
                caught(lambda: locked(torch.ones(1))),
                caught(lambda: good.weight.mul_(2)),
                caught(lambda: good.weight.add_(1)),
                caught(lambda: good(threading.Lock())),
                caught(lambda: good(torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.quint8))),
                caught(lambda: good.weight.backward()),
            ]
        """,
    )
    found = functions.run(tmp_path, stand_in)
    assert [error[:2] for error in found] == [["SlicewiseError", "not_carried"]] * 6
    for (_, _, text), part in zip(found, ("guard", "mul_", "add_", "lock", "quantized", "backward"), strict=True):
        assert part in text, (part, text)


def test_a_script_run_as_main_brings_its_classes(tmp_path: Path, stand_in: StandIn) -> None:
    functions.write(
        tmp_path,
        server="""
        import json, torch
        from torch import nn

        class Net(nn.Module):
            def forward(self, x):
                return x + len(NAME)

        NAME = "main"

        if __name__ == "__main__":
            model = Net().cuda()
            print("RESULT " + json.dumps(model(torch.zeros(1)).tolist()))
        """,
    )
    assert functions.run(tmp_path, stand_in, "server.py") == [4.0]
