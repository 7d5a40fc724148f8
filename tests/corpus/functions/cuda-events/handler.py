"""Latency as benchmarks measure it: CUDA events around each call, on a stream of its own."""

import json

import torch
from torch import nn

torch.manual_seed(31)
model = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 1)).cuda().eval()
stream = torch.cuda.Stream()
starter = torch.cuda.Event(enable_timing=True)
ender = torch.cuda.Event(enable_timing=True)


def handle(event, context):
    x = torch.tensor(json.loads(event.body), dtype=torch.float32, device="cuda")
    timings = []
    with torch.no_grad():
        for _ in range(3):
            starter.record()
            y = model(x)
            ender.record()
            torch.cuda.synchronize()
            timings.append(starter.elapsed_time(ender))
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            z = model(x)
            z.record_stream(stream)
            done = stream.record_event()
        torch.cuda.current_stream().wait_event(done)
        done.synchronize()
        stream.synchronize()
        torch.cuda.default_stream().synchronize()
        torch.cuda.nvtx.range_push("after")
        torch.cuda.nvtx.range_pop()
    return {
        "y": y.tolist(), "same": torch.equal(y, z), "positive": all(t > 0 for t in timings), "done": done.query(),
        "numbers": all(isinstance(t, float) for t in timings),
    }  # fmt: skip
