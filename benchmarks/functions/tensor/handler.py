"""One linear layer on a tensor of 600 kB; COUNT calls an invocation, timed inside the handler."""

import os
import time

import torch

model = torch.nn.Linear(1, 1).to("cuda")
tensor = torch.rand(150_000, 1)
COUNT = int(os.environ.get("COUNT", "1"))


def handle(event, context):
    count = int(event.query.get("count", COUNT))
    rows = int(event.query.get("rows", len(tensor)))
    given = tensor[:rows]
    started = time.perf_counter()
    for _ in range(count):
        answer = model(given)
    seconds = time.perf_counter() - started
    return {"statusCode": 200, "body": {"seconds": seconds, "first": float(answer[0])}}
