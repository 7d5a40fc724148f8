import json

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.register_buffer("offset", torch.arange(4.0))

    def forward(self, x):
        return self.linear(x) + self.offset


torch.manual_seed(26)
with torch.device("cuda"):
    model = Net().eval()


def handle(event, context):
    with torch.device("cuda"), torch.no_grad():
        x = torch.tensor(json.loads(event.body), dtype=torch.float32)
        return {"y": model(x + torch.zeros(4)).tolist()}
