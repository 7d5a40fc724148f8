"""Uncertainty by dropout: the model is put into training mode for some of its calls."""

import json

import torch
from torch import nn

torch.manual_seed(38)
model = nn.Sequential(nn.Linear(3, 64), nn.ReLU(), nn.Dropout(0.5), nn.Linear(64, 1)).cuda()
model.eval()


def enable_dropout(module):
    for part in module.modules():
        if part.__class__.__name__.startswith("Dropout"):
            part.train()


def handle(event, context):
    x = torch.tensor(json.loads(event.body), device="cuda", dtype=torch.float32)
    with torch.no_grad():
        model.eval()
        point = model(x)
        quiet = torch.stack([model(x) for _ in range(3)]).std(0)
        enable_dropout(model)
        spread = torch.stack([model(x) for _ in range(8)]).std(0)
        model.train()
        whole = torch.stack([model(x) for _ in range(8)]).std(0)
        model.eval()
    return {
        "point": point.tolist(), "quiet": quiet.max().item(), "spread": bool((spread > 0).all()),
        "whole": bool((whole > 0).all()), "training": model.training,
    }  # fmt: skip
