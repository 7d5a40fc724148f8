"""A detector whose forward gives an object of a class of its own, with methods."""

import json

import torch
from torch import nn


class Detections:
    def __init__(self, boxes, scores, names):
        self.boxes = boxes
        self.scores = scores
        self.names = names

    def __len__(self):
        return len(self.boxes)

    def above(self, threshold):
        keep = self.scores > threshold
        return Detections(self.boxes[keep], self.scores[keep], self.names)

    def to_json(self):
        return {"boxes": self.boxes.cpu().tolist(), "scores": self.scores.cpu().tolist(), "names": self.names}


class Detector(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = nn.Linear(4, 8)
        self.boxes = nn.Linear(8, 4)
        self.scores = nn.Linear(8, 1)

    def forward(self, x):
        h = torch.relu(self.backbone(x))
        return Detections(self.boxes(h), self.scores(h).sigmoid().squeeze(-1), ["cat", "dog"])


torch.manual_seed(72)
model = Detector().cuda().eval()


def handle(event, context):
    with torch.no_grad():
        found = model(torch.tensor(json.loads(event.body)).float().cuda())
    return {"all": len(found), **found.above(0.5).to_json()}
