"""A graph network: features and a sparse adjacency matrix."""

import json

import torch
from torch import nn


class GCN(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(2, 4)
        self.second = nn.Linear(4, 2)

    def forward(self, x, adjacency):
        x = torch.relu(torch.sparse.mm(adjacency, self.first(x)))
        return torch.log_softmax(torch.sparse.mm(adjacency, self.second(x)), dim=1)


torch.manual_seed(83)
model = GCN().to("cuda").eval()


def handle(event, context):
    asked = json.loads(event.body)
    x = torch.tensor(asked["x"]).float().to("cuda")
    edges = torch.tensor(asked["edges"]).t()
    adjacency = torch.sparse_coo_tensor(edges, torch.ones(edges.shape[1]), (len(x), len(x))).coalesce().to("cuda")
    with torch.no_grad():
        out = model(x, adjacency)
    return {"classes": out.argmax(1).tolist(), "out": out.cpu().numpy().tolist()}
