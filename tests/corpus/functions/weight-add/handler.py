import json

import torch
from torch import nn

torch.manual_seed(64)
model = nn.Linear(3, 2).to("cuda").eval()


def handle(event, context):
    x = torch.tensor(json.loads(event.body), device="cuda").float()
    if event.path == "/perturb":
        with torch.no_grad():
            model.weight.add_(1)
            model.bias.copy_(torch.zeros(2))
    elif event.path == "/noise":
        with torch.no_grad():
            for parameter in model.parameters():
                parameter += 0.01 * torch.ones(parameter.shape, device=parameter.device)
    elif event.path == "/init":
        nn.init.xavier_uniform_(model.weight)
    with torch.no_grad():
        return {"y": model(x).tolist()}
