import json

import torch
from torch import nn


class Scorer(nn.Module):
    def __init__(self, device=None):
        super().__init__()
        self.embedding = nn.Embedding(20, 4, device=device)
        self.head = nn.Linear(4, 1, device=device)

    def forward(self, ids):
        return self.head(self.embedding(ids).mean(1)).squeeze(1)


torch.manual_seed(28)
model = Scorer(device="cuda").eval()


def handle(event, context):
    ids = torch.tensor(json.loads(event.body), device="cuda")
    with torch.no_grad():
        return {"scores": model(ids).tolist()}
