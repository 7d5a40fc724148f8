"""One model call that leaves a trace where it ran and, when told so, waits until it is let go."""

import json
import os
import time

import torch


class Traced(torch.nn.Module):
    def forward(self, numbers, name="", hold=False):
        if name:
            with open(f"/tmp/ran-{name}.new", "w") as trace:
                trace.write(str(os.getpid()))
            os.rename(f"/tmp/ran-{name}.new", f"/tmp/ran-{name}")
        given_up = time.monotonic() + 100
        while hold and not os.path.exists(f"/tmp/go-{name}") and time.monotonic() < given_up:
            time.sleep(0.005)
        return numbers * 2


model = Traced().to("cuda")


def handle(event, context):
    wish = json.loads(event.body or b"{}")
    numbers = torch.tensor([1.0, 2.0]).to("cuda")
    return {"body": model(numbers, wish.get("name", ""), wish.get("hold", False)).tolist()}
