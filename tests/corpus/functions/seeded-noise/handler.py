import json

import torch
from torch import nn


class Sampler(nn.Module):
    def __init__(self):
        super().__init__()
        self.logits = nn.Linear(2, 6)

    def forward(self, x):
        p = torch.softmax(self.logits(x), -1)
        return torch.multinomial(p, 5, replacement=True), torch.rand_like(p)


torch.manual_seed(37)
model = Sampler().cuda().eval()


def handle(event, context):
    asked = json.loads(event.body)
    torch.manual_seed(asked["seed"])
    torch.cuda.manual_seed_all(asked["seed"])
    drawn, noise = model(torch.tensor([[0.5, -0.5]], device="cuda"))
    after, _ = model(torch.tensor([[0.5, -0.5]], device="cuda"))
    return {"drawn": drawn.tolist(), "noise": noise.tolist(), "after": after.tolist()}
