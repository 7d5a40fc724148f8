import copy
import json

import torch
from torch import nn


def init_weights(module):
    if isinstance(module, nn.Linear):
        nn.init.constant_(module.weight, 0.25)
        nn.init.zeros_(module.bias)


torch.manual_seed(85)
base = nn.Sequential(nn.Linear(3, 4), nn.Identity(), nn.Linear(4, 2))
base.apply(init_weights)
models = [copy.deepcopy(base).requires_grad_(False).eval().float().to("cuda") for _ in range(2)]
models[1][2].weight.fill_(0.5)
for model in models:
    model.zero_grad()
    model.share_memory()
double = copy.deepcopy(base).double().cuda().eval()
loop = copy.deepcopy(base).cuda().cpu().cuda(0).type(torch.float32).eval()


def handle(event, context):
    x = torch.tensor(json.loads(event.body)).float().cuda()
    with torch.no_grad():
        return {
            "y": [model(x).tolist() for model in models],
            "double": [str(double(x.double()).dtype), double(x.double()).tolist()],
            "loop": loop(x).tolist(),
            "names": [name for name, _ in models[0].named_parameters()],
            "grad": [p.requires_grad for p in models[0].parameters()],
            "equal": torch.equal(models[0][0].weight, models[1][0].weight),
            "none": all(p.grad is None for p in models[0].parameters()),
            "modules": [type(m).__name__ for m in models[0].modules()],
        }  # fmt: skip
