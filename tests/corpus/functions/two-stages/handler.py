"""A detector proposes, a second model classifies what it proposed."""

import json

import torch
from torch import nn

torch.manual_seed(9)


class Proposer(nn.Module):
    def __init__(self):
        super().__init__()
        self.score = nn.Linear(5, 1)
        self.box = nn.Linear(5, 2)

    def forward(self, x):
        return {"scores": self.score(x).squeeze(-1).sigmoid(), "boxes": self.box(x)}


proposer = Proposer().cuda().eval()
embedder = nn.Sequential(nn.Linear(2, 8), nn.Tanh()).cuda().eval()
classifier = nn.Linear(8, 3).cuda().eval()


def handle(event, context):
    x = torch.as_tensor(json.loads(event.body), dtype=torch.float32).cuda()
    with torch.no_grad():
        proposals = proposer(x)
        keep = proposals["scores"] > 0.5
        boxes = proposals["boxes"][keep]
        classes = classifier(embedder(boxes)).argmax(-1)
    return {
        "kept": keep.nonzero().flatten().tolist(),
        "classes": classes.tolist(),
        "boxes": boxes.cpu().numpy().tolist(),
    }
