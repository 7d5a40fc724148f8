from torch import nn


class TabularNet(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Linear(4, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 3))
