"""Two models that remember what they were called with: in a buffer, and in an attribute.

A request is a stream: its numbers are fed one by one, and it waits between them for the other one's files.
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
    told = []
    for step, number in enumerate(asked["numbers"]):
        told.append(models[asked["model"]](torch.tensor([number])).item())
        if asked.get("mine"):
            with open(asked["mine"] + str(step), "w"):
                pass
            deadline = time.monotonic() + 60
            while not os.path.exists(asked["other"] + str(step)):
                if time.monotonic() > deadline:
                    raise TimeoutError(asked["other"])
                time.sleep(0.005)
    return {"statusCode": 200, "body": told}
