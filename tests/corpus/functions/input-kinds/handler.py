"""A model that says what it was given: every kind of argument that handlers pass."""

import numpy as np
import torch
from torch import nn


def describe(value):
    if isinstance(value, torch.Tensor):
        numbers = value.to(torch.complex64) if value.is_complex() else value.double()
        return [str(value.dtype), list(value.shape), str(numbers.tolist())]
    if isinstance(value, (list, tuple)):
        return [type(value).__name__, [describe(item) for item in value]]
    if isinstance(value, dict):
        return {str(key): describe(item) for key, item in value.items()}
    return f"{type(value).__name__} {value!r}"


class Describe(nn.Module):
    def forward(self, *args, **kwargs):
        return describe(args), describe(kwargs)


model = Describe().to("cuda")


def handle(event, context):
    base = torch.arange(12, dtype=torch.float32).reshape(3, 4).to("cuda")
    grad = torch.ones(2, requires_grad=True)
    positional, named = model(
        base,
        base.t(),
        base[1:, ::2],
        base.expand(2, 3, 4)[:, 0],
        base > 5,
        base.bfloat16(),
        base.half(),
        torch.tensor([1 + 2j, -1j]),
        torch.tensor([1 + 2j]).conj(),
        torch.tensor(7),
        torch.empty(0, 3),
        torch.from_numpy(np.linspace(0, 1, 5)),
        torch.from_numpy(np.arange(6).reshape(2, 3)[:, ::-1].copy()),
        torch.as_tensor(np.array([3, 4], dtype=np.int16)),
        torch.tensor([255, 0], dtype=torch.uint8),
        grad * 2,
        5,
        None,
        2.5,
        "text",
        True,
        [base[0], {"inner": (base[0, 0], -1)}],
        mask=None,
        ids=torch.tensor([[1, 2], [3, 4]]),
        sizes=[1, 2, 3],
        options={"scale": 0.5, "names": ["a", "b"]},
        array=np.float32(1.5),
    )
    return {"positional": positional, "named": named}
