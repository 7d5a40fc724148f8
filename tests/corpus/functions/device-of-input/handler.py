import json
import math

import torch
from torch import nn


class PositionalTransformer(nn.Module):
    def __init__(self, vocabulary=32, width=8):
        super().__init__()
        self.width = width
        self.embed = nn.Embedding(vocabulary, width)
        layer = nn.TransformerEncoderLayer(width, 2, 16, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
        self.out = nn.Linear(width, vocabulary)

    def positions(self, length, device):
        position = torch.arange(length, device=device).unsqueeze(1)
        rate = torch.exp(torch.arange(0, self.width, 2, device=device) * (-math.log(10000.0) / self.width))
        table = torch.zeros(length, self.width, device=device)
        table[:, 0::2] = torch.sin(position * rate)
        table[:, 1::2] = torch.cos(position * rate)
        return table

    def forward(self, ids):
        mask = torch.triu(torch.full((ids.shape[1], ids.shape[1]), float("-inf"), device=ids.device), diagonal=1)
        x = self.embed(ids) * math.sqrt(self.width) + self.positions(ids.shape[1], ids.device)
        if ids.device.type == "cuda":
            x = x.cuda(non_blocking=True)
        return self.out(self.encoder(x, mask=mask))


torch.manual_seed(29)
model = PositionalTransformer().cuda().eval()


def handle(event, context):
    ids = torch.tensor([json.loads(event.body)], dtype=torch.long).cuda()
    with torch.no_grad():
        logits = model(ids)[:, -1]
    return {"next": logits.argmax(-1).item(), "logits": logits[0].tolist()}
