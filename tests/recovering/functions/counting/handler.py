"""A model with state: counts its calls, and in the second waits to be let go."""

import json
import os
import time

import torch


class Counting(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, numbers, name):
        self.calls += 1
        if self.calls == 2:
            with open(f"/tmp/ran-{name}.new", "w") as trace:
                trace.write(str(os.getpid()))
            os.rename(f"/tmp/ran-{name}.new", f"/tmp/ran-{name}")
            given_up = time.monotonic() + 100
            while not os.path.exists(f"/tmp/go-{name}") and time.monotonic() < given_up:
                time.sleep(0.005)
        return numbers + self.calls


model = Counting().to("cuda")


def handle(event, context):
    name = json.loads(event.body)["name"]
    return {"body": [model(torch.zeros(1), name).item() for _ in range(3)]}
