"""A name that the platform has, too."""

import torch


def schedule(step: int) -> float:
    return 1.0 / step


class Decay(torch.nn.Module):
    def forward(self, numbers):
        return numbers * schedule(2)
