"""Tokens are streamed as a loop in the handler makes them: one model call a token."""

import json

import torch
from torch import nn

torch.manual_seed(41)


class Bigram(nn.Module):
    def __init__(self, vocabulary=12):
        super().__init__()
        self.table = nn.Embedding(vocabulary, vocabulary)

    def forward(self, ids):
        return self.table(ids)


WORDS = "the cat sat on a mat and then it ran away quickly".split()
model = Bigram(len(WORDS)).to("cuda").eval()


def generate(prompt, count):
    ids = torch.tensor([[WORDS.index(word) for word in prompt.split()]], device="cuda")
    for _ in range(count):
        with torch.no_grad():
            logits = model(ids)[:, -1, :]
        token = torch.argmax(logits, dim=-1, keepdim=True)
        ids = torch.cat([ids, token], dim=1)
        yield json.dumps({"token": WORDS[token.item()]}) + "\n"


def handle(event, context):
    asked = json.loads(event.body)
    tokens = generate(asked["prompt"], asked["n"])
    if not asked.get("stream", True):
        return "".join(json.loads(line)["token"] + " " for line in tokens)
    return {"statusCode": 200, "headers": {"Content-Type": "application/x-ndjson"}, "body": tokens}
