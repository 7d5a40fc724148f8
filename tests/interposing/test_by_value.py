"""What no name leads to, and what a GPU would compute on weights: as in the handler's own process."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.interposing import functions
from tests.interposing.test_registering import registered
from tests.running.stand_in import StandIn

_BUILT = """
import functools
import torch
from torch import nn
from torch.nn.utils import parametrizations

SCALE = 3.0

def twice(x):
    return x * 2

def build(factor):
    def deeper(x, depth=2):
        return x if depth == 0 else deeper(x + factor, depth - 1)
    class Net(nn.Module):
        \"\"\"Defined inside a function.\"\"\"
        OFFSET = 1
        def __init__(self):
            super().__init__()
            self.linear = parametrizations.weight_norm(nn.Linear(2, 2))
            self.post = lambda x: twice(x) * SCALE + factor
            self.act = functools.partial(nn.functional.leaky_relu, negative_slope=0.1)
        def forward(self, x):
            return Found(self.post(self.act(self.linear(deeper(x)))) + self.OFFSET, [1, 2])
    return Net()

class Found:
    def __init__(self, scores, more):
        self.scores, self.more = scores, more
    def best(self):
        return self.scores.max().item() + sum(self.more)

torch.manual_seed(3)
"""


def test_lambdas_local_classes_parametrized_layers_and_own_results(tmp_path: Path, stand_in: StandIn) -> None:
    functions.write(
        tmp_path,
        built=_BUILT,
        handler="""
        from built import *
        models = [build(1.0), build(5.0)]
        if torch.cuda.is_available():
            models = [model.to("cuda").eval() for model in models]
        def answer():
            found = [model(torch.ones(1, 2)) for model in models]
            return [[one.best(), isinstance(one, Found), one.scores.tolist()] for one in found]
        """,
    )
    here = functions.run(tmp_path, None)
    assert functions.run(tmp_path, stand_in) == here
    assert len(registered(stand_in)) == 2


def test_a_module_of_the_handlers_own_as_an_attribute_or_global_comes_along(tmp_path: Path, stand_in: StandIn) -> None:
    functions.write(
        tmp_path,
        shapes="""
        OFFSET = 4
        def widen(x):
            return x + OFFSET
        """,
        handler="""
        import torch, shapes
        class Net(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.weight = torch.nn.Parameter(torch.ones(1))
                self.shapes = shapes
                self.late = lambda x: shapes.widen(x) * 2
            def forward(self, x):
                return self.late(self.shapes.widen(x) * self.weight)
        model = Net().to("cuda")
        def answer():
            return model(torch.ones(1)).tolist()
        """,
    )
    assert functions.run(tmp_path, stand_in) == [18.0]


def test_whatever_reads_weights_works_on_their_values(tmp_path: Path, stand_in: StandIn) -> None:
    functions.write(
        tmp_path,
        handler="""
        import torch
        from torch import nn
        torch.manual_seed(1)
        model = nn.Linear(3, 2)
        if torch.cuda.is_available():
            model = model.to("cuda")
        def answer():
            w, b, x = model.weight, model.bias, torch.ones(3)
            model(x)
            w, b = model.weight, model.bias
            return [
                w[0].tolist(), w[0, 1].item(), w.norm().item(), (x @ w.T).tolist(), torch.isfinite(w).all().item(),
                torch.cat([w.flatten(), b]).tolist(), w.abs().sum().item(), (w * 2 + b[:, None]).tolist(),
                [list(p.shape) for p in model.parameters()], len(w), torch.stack([b, b]).tolist(), bool((w == w).all()),
            ]
        """,
    )
    assert functions.run(tmp_path, stand_in) == functions.run(tmp_path, None)


@pytest.mark.parametrize("device", ["cuda", 0, "cuda:0"])
def test_a_model_says_that_it_is_on_cuda_as_soon_as_it_was_moved(
    tmp_path: Path, stand_in: StandIn, device: str | int
) -> None:
    functions.write(
        tmp_path,
        handler=f"""
        import torch
        model = torch.nn.Linear(2, 2)
        before = str(next(model.parameters()).device)
        model.to({device!r})
        found = [before, str(next(model.parameters()).device), next(model.parameters()).is_cuda]
        def answer():
            back = torch.nn.Linear(2, 2).cuda().cpu()
            model(torch.ones(2))
            return [*found, str(model.weight.device), model.weight.is_cuda, str(back.weight.device)]
        """,
    )
    assert functions.run(tmp_path, stand_in) == ["cpu", "cuda:0", True, "cuda:0", True, "cpu"]
