import json

import torch
from torch import nn

torch.manual_seed(67)
model = nn.Linear(3, 2).to("cuda").eval()


def handle(event, context):
    if event.path == "/prune":
        model.weight.data[0, 0] = 0.0
    with torch.no_grad():
        return {"y": model(torch.tensor(json.loads(event.body), device="cuda").float()).tolist()}
