"""Things handlers do around a model: buffers that count, errors that are caught, a metric module, numpy in and out."""

import json

import numpy as np
import torch
from torch import nn


class Normaliser(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.register_buffer("mean", torch.arange(size).float())
        self.register_buffer("calls", torch.zeros((), dtype=torch.long))
        self.names = [f"f{i}" for i in range(size)]

    def forward(self, array):
        if isinstance(array, np.ndarray):
            array = torch.from_numpy(array).to(self.mean.device)
        if array.shape[-1] != len(self.names):
            raise ValueError(f"expected {len(self.names)} features, got {array.shape[-1]}")
        self.calls += 1
        return {
            "z": array - self.mean,
            "calls": int(self.calls),
            "names": self.names,
            "array": (array * 2).cpu().numpy(),
        }


model = Normaliser(3).cuda()


def handle(event, context):
    rows = np.array(json.loads(event.body), dtype=np.float32)
    try:
        first = model(rows)
        second = model(torch.from_numpy(rows).cuda())
    except ValueError as error:
        return {"statusCode": 422, "body": {"error": str(error), "args": list(error.args)}}
    return {
        "z": first["z"].tolist(), "calls": [first["calls"] > 0, second["calls"] - first["calls"]],
        "names": second["names"], "array": type(second["array"]).__name__, "values": second["array"].tolist(),
    }  # fmt: skip
