import json

import torch
from torch import nn

torch.manual_seed(75)
model = nn.Linear(2, 2)
model.to(0)
model.eval()
device = next(model.parameters()).device
assert next(model.parameters()).is_cuda, "not on the GPU"


def handle(event, context):
    x = torch.tensor(json.loads(event.body)).float()
    if x.device != device:
        x = x.to(device)
    spelled = [
        x.cuda(0), x.to(0), x.to("cuda:0"), x.to(torch.device("cuda", 0)), x.to(device=torch.device("cuda"), copy=True),
        x.to(model.weight.device), x.to(device, torch.float32, non_blocking=True), x.cuda(non_blocking=True),
        x.double().type_as(x), x.double().to(x), x.cuda(device=device), x.to("cuda", dtype=torch.float32),
    ]  # fmt: skip
    with torch.no_grad():
        answers = torch.stack([model(one) for one in spelled])
        bias = x.new_tensor([1.0, 2.0]) + x.new_zeros(2) + torch.ones_like(x) + torch.full((2,), 0.5, device=0)
    return {
        "same": bool((answers == answers[0]).all()), "y": answers[0].tolist(), "bias": bias.tolist(),
        "empty": torch.empty(0, device="cuda:0").shape, "rand": torch.rand(3, device=device).shape,
        "eye": torch.eye(2, device="cuda").tolist(), "linspace": torch.linspace(0, 1, 3, device=device).tolist(),
    }  # fmt: skip
