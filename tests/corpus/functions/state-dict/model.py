import torch.nn.functional as F
from torch import nn


class Regressor(nn.Module):
    def __init__(self, features, hidden):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(features, hidden), nn.Linear(hidden, hidden)])
        self.norm = nn.LayerNorm(hidden)
        self.head = nn.Linear(hidden, 1)

    def forward(self, x):
        for layer in self.layers:
            x = F.gelu(layer(x))
        return self.head(self.norm(x)).squeeze(-1)
