"""Digits of 8 by 8 pixels; the model was saved whole by its training script."""

import json
import os

import net  # noqa: F401  (the pickle names its classes)
import torch

HERE = os.path.dirname(os.path.abspath(__file__))
device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")

model = torch.load(os.path.join(HERE, "model.pt"), map_location=device, weights_only=False)
model.eval()


def handle(event, context):
    pixels = json.loads(event.body)["pixels"]
    image = torch.tensor(pixels, dtype=torch.float32).view(1, 1, 8, 8) / 16.0
    with torch.no_grad():
        logits = model(image.to(device))
        probabilities = torch.softmax(logits, dim=1)
        confidence, digit = probabilities.max(dim=1)
    return {
        "statusCode": 200,
        "body": json.dumps({"digit": digit.item(), "confidence": round(confidence.item(), 4)}),
        "headers": {"Content-Type": "application/json"},
    }
