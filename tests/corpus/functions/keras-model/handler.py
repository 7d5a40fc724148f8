import json
import os

os.environ.setdefault("KERAS_BACKEND", "torch")

import keras
import numpy as np
import torch

model = keras.models.load_model(os.path.join(os.path.dirname(os.path.abspath(__file__)), "cnn.keras"))
model.to("cuda")


def handle(event, context):
    images = np.asarray(json.loads(event.body), dtype=np.float32).reshape(-1, 8, 8, 1) / 255.0
    with torch.no_grad():
        called = model(torch.from_numpy(images).to("cuda"))
    return {"predict": model.predict(images, verbose=0).tolist(), "called": called.detach().cpu().numpy().tolist()}
