import json

import torch
from torch import nn

torch.manual_seed(63)
model = nn.Linear(3, 2).to("cuda").eval()


def handle(event, context):
    asked = json.loads(event.body)
    x = torch.tensor(asked["x"], device="cuda").float()
    if "scale" in asked:
        model.weight.data.mul_(asked["scale"])
    with torch.no_grad():
        return {"y": model(x).tolist()}
