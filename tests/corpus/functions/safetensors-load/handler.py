import pathlib

import torch
from safetensors.torch import load_file


class BagOfWords(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = torch.nn.EmbeddingBag(50, 8, mode="mean")
        self.proj = torch.nn.Linear(8, 4)

    def forward(self, tokens, offsets):
        return self.proj(self.embed(tokens, offsets))


model = BagOfWords().to("cuda")
model.load_state_dict(load_file(pathlib.Path(__file__).parent / "model.safetensors", device="cuda"))
model.eval()


@torch.no_grad()
def handle(event, context):
    documents = [[sum(map(ord, word)) % 50 for word in line.split()] for line in event.body.decode().splitlines()]
    offsets = torch.tensor([0] + [len(d) for d in documents[:-1]], device="cuda").cumsum(0)
    tokens = torch.tensor([t for d in documents for t in d], device="cuda")
    logits = model(tokens, offsets)
    return {"labels": logits.argmax(1).tolist(), "logits": logits.cpu().tolist()}
