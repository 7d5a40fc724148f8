import json

import torch
from torch import nn

TEMPERATURE = 1.0


class Detector(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(2, 4)
        self.threshold = 0.5

    def forward(self, x):
        p = torch.sigmoid(self.head(x) / TEMPERATURE)
        return torch.where(p > self.threshold, p, torch.zeros_like(p))


torch.manual_seed(36)
model = Detector().to("cuda").eval()


def handle(event, context):
    global TEMPERATURE
    asked = json.loads(event.body)
    model.threshold = asked.get("threshold", 0.5)
    TEMPERATURE = asked.get("temperature", 1.0)
    with torch.no_grad():
        return {"p": model(torch.tensor(asked["x"]).to("cuda")).tolist(), "threshold": model.threshold}
