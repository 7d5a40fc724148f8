import json

import torch
from torch import nn


def make(seed):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(3, 6), nn.ELU(), nn.Linear(6, 2))


models = nn.ModuleList([make(seed) for seed in range(5)]).to("cuda")
models.eval()


def handle(event, context):
    x = torch.tensor(json.loads(event.body), dtype=torch.float32).to("cuda")
    with torch.no_grad():
        votes = torch.stack([model(x) for model in models])
    return {
        "members": len(models),
        "mean": votes.mean(0).tolist(),
        "spread": votes.std(0).tolist(),
        "majority": votes.argmax(-1).mode(0).values.tolist(),
        "third": models[2](x).tolist(),
    }
