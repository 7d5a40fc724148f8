"""Streams of every kind, each of which waits in its middle for a file before it makes its last chunk."""

import os
import time

import torch


class Double(torch.nn.Module):
    def forward(self, numbers):
        return numbers * 2


model = Double().to("cuda")


def passed(path):
    deadline = time.monotonic() + 60
    while not os.path.exists(path):
        if time.monotonic() > deadline:
            raise TimeoutError(path)
        time.sleep(0.005)


def events(path):
    yield "data: first\n\n"
    passed(path)
    yield "data: last\n\n"


def rows(path):
    # The model's answer is a row, and the next call comes after the first row was read.
    yield {"row": model(torch.tensor([1.0, 2.0])).tolist()}
    passed(path)
    yield {"row": model(torch.tensor([3.0, 4.0])).tolist()}


def chunks(path):
    yield bytes(range(256))
    passed(path)
    yield b"end"


KINDS = {"/sse": ("text/event-stream", events), "/ndjson": ("application/x-ndjson", rows), "/chunks": (None, chunks)}


def handle(event, context):
    kind, made = KINDS[event.path]
    headers = {"Content-Type": kind} if kind else {}
    return {"statusCode": 200, "headers": headers, "body": made(event.query["until"])}
