"""Feature extraction: parts of a model are called by themselves, and pieces of it are put together anew."""

import json

import torch
from torch import nn


class Backbone(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Conv1d(1, 4, 3), nn.ReLU(), nn.Conv1d(4, 2, 3), nn.ReLU())
        self.classifier = nn.Sequential(nn.Flatten(), nn.Linear(8, 3))

    def forward(self, x):
        return self.classifier(self.features(x))


torch.manual_seed(46)
model = Backbone().cuda().eval()
extractor = nn.Sequential(*list(model.children())[:-1])


def handle(event, context):
    x = torch.tensor(json.loads(event.body)).float().view(1, 1, -1).cuda()
    with torch.no_grad():
        hidden = model.features(x)
        first = model.features[:2](x)
        steps = [x]
        for layer in model.features:
            steps.append(layer(steps[-1]))
        return {
            "whole": model(x).tolist(), "hidden": hidden.tolist(), "first": first.tolist(),
            "again": model.classifier(hidden).tolist(), "extracted": extractor(x).tolist(),
            "steps": [list(step.shape) for step in steps],
        }  # fmt: skip
