import torch

from proto.types import SHIFT


class Shift(torch.nn.Module):
    def forward(self, numbers):
        return numbers + SHIFT
