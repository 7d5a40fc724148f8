"""A model whose size, load and calls a test steers: by its environment, and by files that it makes and waits for.

A worker has its own /tmp and no network, so the files lie in a folder elsewhere that everybody may write.
"""

import json
import os
import time

import torch

MIB = 1 << 20
# A guard against a test that never opens its gate.
HANG_S = 60.0


def pass_gate(begun, until):
    """Make the file `begun`, then wait for the file `until`; "" leaves either out."""
    if begun:
        with open(begun, "w"):
            pass
    deadline = time.monotonic() + HANG_S
    while until and not os.path.exists(until):
        if time.monotonic() > deadline:
            raise TimeoutError(f"{until} never came")
        time.sleep(0.005)


class Shelf(torch.nn.Module):
    def __init__(self):
        super().__init__()
        values = float(os.environ.get("VALUE", "1"))
        self.weight = torch.nn.Parameter(torch.full((int(os.environ.get("MIB", "4")) * MIB // 4,), values))
        self.extra_mib = int(os.environ.get("EXTRA_MIB", "0"))
        self.load_begun = os.environ.get("LOAD_BEGUN", "")
        self.load_until = os.environ.get("LOAD_UNTIL", "")

    def __setstate__(self, state):
        super().__setstate__(state)
        self.extra = b"x" * (self.extra_mib * MIB)  # what nobody could foresee from the tensors
        pass_gate(self.load_begun, self.load_until)

    def forward(self, numbers, begun="", until="", take_mib=0):
        pages = [b"y" * 65536 for _ in range(16 * take_mib)]  # small ones, which malloc takes from its heap
        pass_gate(begun, until)
        del pages
        return numbers * self.weight[-1]


model = Shelf().to("cuda")


def handle(event, context):
    asked = json.loads(event.body or b"{}")
    numbers = torch.tensor(asked.get("numbers", [1.0])).to("cuda")
    with torch.no_grad():
        answer = model(
            numbers, begun=asked.get("begun", ""), until=asked.get("until", ""), take_mib=asked.get("take_mib", 0)
        )
    return {"statusCode": 200, "body": answer.tolist()}
