import json

import torch
from torch import nn

torch.set_default_device("cuda")
torch.manual_seed(27)
model = nn.Sequential(nn.Linear(3, 8), nn.SiLU(), nn.Linear(8, 2))
model.eval()


def handle(event, context):
    x = torch.tensor(json.loads(event.body), dtype=torch.float32)
    with torch.no_grad():
        y = model(x + torch.ones(3))
    return {"y": y.tolist(), "sum": y.sum().item()}
