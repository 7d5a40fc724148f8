"""Online learning: each labelled request is a step of training."""

import json

import torch
from torch import nn

torch.manual_seed(60)
model = nn.Linear(3, 2).to("cuda")
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
criterion = nn.CrossEntropyLoss()


def handle(event, context):
    asked = json.loads(event.body)
    outputs = model(torch.tensor(asked["x"], device="cuda").float())
    if event.path == "/train":
        optimizer.zero_grad()
        loss = criterion(outputs, torch.tensor(asked["y"], device="cuda"))
        loss.backward()
        optimizer.step()
        return {"loss": loss.item()}
    return {"classes": outputs.argmax(-1).tolist()}
