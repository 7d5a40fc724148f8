"""Runs whatever it is sent, in its own process or in its model's worker: the most hostile function there can be."""

import json
import os

import torch


def run(text):
    """The JSON of what the text leaves as `found`."""
    scope = {"__name__": "hostile"}
    exec(text, scope)
    return json.dumps(scope.get("found"))


class Agent(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.tensor([float(os.environ.get("VALUE", "2"))]))

    def forward(self, numbers, text=""):
        return run(text) if text else numbers * self.weight


model = Agent().to("cuda")


def handle(event, context):
    asked = json.loads(event.body or b"{}")
    if "here" in asked:
        return {"body": run(asked["here"])}
    if "slice" in asked:
        return {"body": model(torch.zeros(1).to("cuda"), asked["slice"])}
    return {"body": model(torch.ones(2).to("cuda")).tolist()}
