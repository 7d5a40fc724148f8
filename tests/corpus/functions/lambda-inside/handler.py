import json
import logging
from functools import partial

import torch
import torch.nn.functional as F
from torch import nn

ACTIVATIONS = {"relu": F.relu, "leaky": partial(F.leaky_relu, negative_slope=0.2), "double": lambda x: x * 2}


class FlexibleMLP(nn.Module):
    def __init__(self, activation):
        super().__init__()
        self.log = logging.getLogger("mlp")
        self.linear = nn.Linear(3, 3)
        self.act = ACTIVATIONS[activation]
        self.post = lambda x: x.clamp(-1, 1)

    def forward(self, x):
        self.log.debug("forward %s", tuple(x.shape))
        return self.post(self.act(self.linear(x)))


torch.manual_seed(70)
models = {name: FlexibleMLP(name).cuda().eval() for name in ACTIVATIONS}


def handle(event, context):
    x = torch.tensor(json.loads(event.body)).float().cuda()
    with torch.no_grad():
        return {name: model(x).tolist() for name, model in models.items()}
