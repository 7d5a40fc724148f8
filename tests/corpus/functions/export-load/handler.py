import json
from pathlib import Path

import torch

program = torch.export.load(Path(__file__).parent / "ranker.pt2")
model = program.module().to("cuda")


def handle(event, context):
    query = torch.tensor(json.loads(event.body), dtype=torch.float32, device="cuda")
    with torch.no_grad():
        scores = model(query)
    values, items = torch.topk(scores, k=3, dim=-1)
    return {"items": items.tolist(), "scores": values.tolist()}
