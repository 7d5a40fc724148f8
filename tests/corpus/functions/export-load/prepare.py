import torch
from torch import nn


class Ranker(nn.Module):
    def __init__(self):
        super().__init__()
        self.query = nn.Linear(6, 4)
        self.items = nn.Parameter(torch.randn(10, 4))

    def forward(self, x):
        return self.query(x) @ self.items.T


torch.manual_seed(8)
batch = torch.export.Dim("batch", min=1, max=64)
program = torch.export.export(Ranker().eval(), (torch.randn(2, 6),), dynamic_shapes={"x": {0: batch}})
torch.export.save(program, "ranker.pt2")
