"""Two models that remember what they were called with: in a buffer, and in an attribute.

A request is a stream: its numbers are fed one by one. After the first it may wait until another has begun.
"""

import json
import os
import time

import torch


class Running(torch.nn.Module):
    """Sum so far, in a buffer."""

    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros(1))

    def forward(self, number: torch.Tensor) -> torch.Tensor:
        self.total += number
        return self.total.clone()


class Counting(torch.nn.Module):
    """Number and calls so far, in a plain attribute."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def forward(self, number):
        self.seen.append(float(number))
        return torch.tensor([len(self.seen) * 100.0 + sum(self.seen)])


torch.jit.script(Running()).save(os.path.join(os.environ["HOME"], "running.pt"))
models = {
    "script": torch.jit.load(os.path.join(os.environ["HOME"], "running.pt"), map_location="cuda"),
    "attribute": Counting().to("cuda"),
}


def handle(event, context):
    asked = json.loads(event.body)
    if asked.get("begun"):
        with open(asked["begun"], "w"):
            pass
    told = []
    for number in asked["numbers"]:
        told.append(models[asked["model"]](torch.tensor([number])).item())
        deadline = time.monotonic() + 25
        while asked.get("until") and not os.path.exists(asked["until"]):
            if time.monotonic() > deadline:
                raise TimeoutError(asked["until"])
            time.sleep(0.005)
    return {"statusCode": 200, "body": told}
