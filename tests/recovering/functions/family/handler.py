"""Large enough that a slice holds one of its kind; a parent calls its child between two calls of its own model."""

import json
import os
import urllib.request

import torch


class Large(torch.nn.Module):
    def __init__(self, elements):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(elements))

    def forward(self, number):
        return number + self.weight[-1]


model = Large(int(os.environ["ELEMENTS"])).to("cuda")


def handle(event, context):
    number = float(event.body)
    with torch.no_grad():
        number = model(torch.tensor(number)).item()
        if "CHILD" in os.environ:
            with urllib.request.urlopen(os.environ["CHILD"], data=json.dumps(number).encode()) as answer:
                number = model(torch.tensor(float(answer.read()))).item()
    return {"body": json.dumps(number)}
