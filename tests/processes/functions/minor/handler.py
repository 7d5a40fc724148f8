"""Says that it runs under another Python than it does, as a process with its own interpreter and torch would."""

import sys

import torch

sys.version_info = (3, 99, 1, "final", 0)
model = torch.nn.Identity().to("cuda")


def handle(event, context):
    return {"statusCode": 200, "body": model(torch.ones(1)).tolist()}
