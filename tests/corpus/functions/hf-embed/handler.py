import json
from pathlib import Path

import torch
import torch.nn.functional as F
from transformers import AutoModel, AutoTokenizer

path = Path(__file__).parent / "encoder"
tokenizer = AutoTokenizer.from_pretrained(path)
model = AutoModel.from_pretrained(path)
model.to("cuda")
model.eval()


def mean_pooling(model_output, attention_mask):
    token_embeddings = model_output[0]
    mask = attention_mask.unsqueeze(-1).expand(token_embeddings.size()).float()
    return torch.sum(token_embeddings * mask, 1) / torch.clamp(mask.sum(1), min=1e-9)


def handle(event, context):
    sentences = json.loads(event.body)["sentences"]
    encoded = tokenizer(sentences, padding=True, truncation=True, return_tensors="pt").to(model.device)
    with torch.no_grad():
        output = model(**encoded, output_hidden_states=True)
    vectors = F.normalize(mean_pooling(output, encoded["attention_mask"]), p=2, dim=1)
    return {
        "similarity": (vectors @ vectors.T).cpu().numpy().tolist(),
        "cls": output.last_hidden_state[:, 0].tolist(),
        "pooled": output.pooler_output[0].tolist(),
        "layers": len(output.hidden_states),
        "keys": list(output.keys()),
        "type": type(output).__name__,
        "attentions": output.attentions,
        "hidden": model.config.hidden_size,
    }
