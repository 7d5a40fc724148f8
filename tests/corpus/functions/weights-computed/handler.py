"""What scripts compute from a model's weights without moving them: norms, rows, products, comparisons."""

import json

import torch
from torch import nn

torch.manual_seed(66)
model = nn.Sequential(nn.Embedding(8, 4), nn.Linear(4, 2)).to("cuda").eval()


def handle(event, context):
    token = json.loads(event.body)
    embedding, linear = model
    with torch.no_grad():
        score = model(torch.tensor([token], device="cuda"))
        row = embedding.weight[token]
        total = sum(p.norm() ** 2 for p in model.parameters()) ** 0.5
        product = row @ linear.weight.T + linear.bias
        nearest = torch.cdist(row[None], embedding.weight).topk(3, largest=False).indices
    return {
        "score": score.tolist(),
        "row": row.tolist(),
        "total": total.item(),
        "product": product.tolist(),
        "nearest": nearest.tolist(),
        "mean": linear.weight.mean().item(),
        "finite": all(bool(torch.isfinite(p).all()) for p in model.parameters()),
        "l1": float(linear.weight.abs().sum()),
    }
