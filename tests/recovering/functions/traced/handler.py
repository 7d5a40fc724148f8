"""One model call that leaves a trace where it ran and, when told so, waits until it is let go."""

import _thread
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


def behind(numbers, name):
    given_up = time.monotonic() + 100
    while not os.path.exists(f"/tmp/begin-{name}") and time.monotonic() < given_up:
        time.sleep(0.005)
    model(numbers, name, True)


def handle(event, context):
    wish = json.loads(event.body or b"{}")
    numbers = torch.tensor([1.0, 2.0]).to("cuda")
    if wish.get("behind"):  # a call of nobody, made when this one has been answered
        _thread.start_new_thread(behind, (numbers, wish["name"]))
        return {"body": "begun"}
    return {"body": model(numbers, wish.get("name", ""), wish.get("hold", False)).tolist()}
