import os
from functools import lru_cache

from inference import input_fn, model_fn, output_fn, predict_fn


@lru_cache(maxsize=1)
def get_model():
    return model_fn(os.path.dirname(os.path.realpath(__file__)))


def handle(event, context):
    data = input_fn(event.body.decode(), event.headers.get("Content-Type", "text/csv").split(";")[0])
    return output_fn(predict_fn(data, get_model()))
