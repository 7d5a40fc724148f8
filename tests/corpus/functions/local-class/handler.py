import json

import torch
from torch import nn


def build_model(width, depth):
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(width, width)

        def forward(self, x):
            return x + torch.tanh(self.linear(x))

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.blocks = nn.Sequential(*[Block() for _ in range(depth)])

        def forward(self, x):
            return self.blocks(x) / depth

    return Net()


torch.manual_seed(71)
model = build_model(width=4, depth=2).to("cuda").eval()


def handle(event, context):
    with torch.no_grad():
        return {"y": model(torch.tensor(json.loads(event.body)).float().to("cuda")).tolist()}
