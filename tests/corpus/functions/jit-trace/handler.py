import json

import torch
from torch import nn


class Smoother(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(1, 3, 3, padding=1)
        self.mix = nn.Conv1d(3, 1, 1)

    def forward(self, x):
        return self.mix(torch.tanh(self.conv(x)))


torch.manual_seed(6)
example = torch.randn(1, 1, 16).to("cuda")
model = Smoother().to("cuda").eval()
with torch.no_grad():
    traced = torch.jit.trace(model, example)
    traced = torch.jit.freeze(traced)


def handle(event, context):
    series = torch.tensor(json.loads(event.body), dtype=torch.float32, device="cuda").reshape(1, 1, -1)
    return {"smooth": traced(series).flatten().tolist()}
