"""A small GPT with a generate of its own, as minimal implementations have it."""

import json

import torch
from torch import nn
from torch.nn import functional as F


class Head(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.key = nn.Linear(config["n_embd"], config["n_embd"], bias=False)
        self.value = nn.Linear(config["n_embd"], config["n_embd"], bias=False)
        self.register_buffer("tril", torch.tril(torch.ones(config["block_size"], config["block_size"])))

    def forward(self, x):
        T = x.shape[1]
        att = (x @ self.key(x).transpose(1, 2)).masked_fill(self.tril[:T, :T] == 0, float("-inf"))
        return F.softmax(att, dim=-1) @ self.value(x)


class GPT(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.wte = nn.Embedding(config["vocab_size"], config["n_embd"])
        self.wpe = nn.Embedding(config["block_size"], config["n_embd"])
        self.head = Head(config)
        self.lm_head = nn.Linear(config["n_embd"], config["vocab_size"], bias=False)
        self.lm_head.weight = self.wte.weight  # tied

    def forward(self, idx, targets=None):
        pos = torch.arange(0, idx.size(1), dtype=torch.long, device=idx.device)
        x = self.wte(idx) + self.wpe(pos)
        logits = self.lm_head(x + self.head(x))
        loss = None if targets is None else F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1))
        return logits, loss

    @torch.no_grad()
    def generate(self, idx, max_new_tokens, temperature=1.0, top_k=None):
        for _ in range(max_new_tokens):
            idx_cond = idx[:, -self.config["block_size"] :]
            logits, _ = self(idx_cond)
            logits = logits[:, -1, :] / temperature
            if top_k is not None:
                v, _ = torch.topk(logits, min(top_k, logits.size(-1)))
                logits[logits < v[:, [-1]]] = -float("Inf")
            idx = torch.cat((idx, logits.argmax(-1, keepdim=True)), dim=1)
        return idx


torch.manual_seed(40)
model = GPT({"vocab_size": 16, "block_size": 8, "n_embd": 8})
model.eval()
model.to("cuda")


def handle(event, context):
    start_ids = json.loads(event.body)
    x = torch.tensor(start_ids, dtype=torch.long, device="cuda")[None, ...]
    y = model.generate(x, 10, temperature=0.8, top_k=4)
    logits, loss = model(x, targets=x)
    return {"ids": y[0].tolist(), "loss": loss.item(), "tied": model.lm_head.weight is model.wte.weight,
            "shape": list(logits.shape)}  # fmt: skip
