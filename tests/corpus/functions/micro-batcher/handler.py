"""Requests are put on a queue; a thread that was started at import takes them off in batches."""

import json
import queue
import threading

import torch
from torch import nn

torch.manual_seed(45)
model = nn.Linear(3, 2).cuda().eval()
requests = queue.Queue()


def worker():
    while True:
        batch = [requests.get()]
        while len(batch) < 8:
            try:
                batch.append(requests.get_nowait())
            except queue.Empty:
                break
        inputs = torch.stack([x for x, _, _ in batch]).cuda()
        with torch.no_grad():
            outputs = model(inputs).cpu()
        for (_, slot, done), output in zip(batch, outputs):
            slot.append(output.tolist())
            done.set()


threading.Thread(target=worker, daemon=True).start()


def handle(event, context):
    slot, done = [], threading.Event()
    requests.put((torch.tensor(json.loads(event.body)).float(), slot, done))
    if not done.wait(timeout=20):
        return {"statusCode": 504, "body": "the model did not answer"}
    return {"statusCode": 200, "body": {"y": slot[0]}}
