"""A model whose times the emulated slices give."""

import torch

model = torch.nn.Linear(4, 2).to("cuda")


def handle(event, context):
    with torch.no_grad():
        return {"statusCode": 200, "body": list(model(torch.ones(1, 4).to("cuda")).shape)}
