import os

import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

MODEL = os.path.join(os.path.dirname(__file__), "checkpoint")
tokenizer = AutoTokenizer.from_pretrained(MODEL)
model = AutoModelForSequenceClassification.from_pretrained(MODEL, device_map="cuda")


def handle(event, context):
    inputs = tokenizer(event.body.decode(), return_tensors="pt")
    device = next(model.parameters()).device
    inputs = {name: tensor.to(device) for name, tensor in inputs.items()}
    with torch.no_grad():
        logits = model(**inputs).logits
    label = model.config.id2label[logits.argmax().item()]
    return {"label": label, "score": torch.softmax(logits, dim=-1).max().item()}
