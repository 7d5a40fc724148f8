from torch import nn

from .blocks import Residual


class Encoder(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.stem = nn.Conv1d(1, width, 5, padding=2)
        self.body = nn.Sequential(*[Residual(width) for _ in range(depth)])

    def forward(self, x):
        return self.body(self.stem(x)).mean(dim=-1)


def build(config):
    return Encoder(**config)
