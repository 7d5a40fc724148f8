import json
import os

os.environ["KERAS_BACKEND"] = "torch"

import numpy as np
from network import TwoTower

model = TwoTower(4)
model({"user": np.zeros((1, 3), "float32"), "item": np.zeros((1, 2), "float32")})
model.load_weights(os.path.join(os.path.dirname(os.path.abspath(__file__)), "towers.weights.h5"))


def handle(event, context):
    asked = {name: np.array(rows, dtype="float32") for name, rows in json.loads(event.body).items()}
    called = model(asked, training=False)
    batch = model.predict_on_batch(asked)
    called = called.detach().cpu().numpy().tolist()
    return {"called": called, "batch": np.asarray(batch).tolist(), "n": model.count_params()}
