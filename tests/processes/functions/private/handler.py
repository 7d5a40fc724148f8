"""The model's class is nobody's but this function's: a package that only requirements.txt names."""

import private_models
import torch
from private_models.layers import Triple

model = Triple().to("cuda")


def handle(event, context):
    seen = {"value": model(torch.tensor([2.0])).item(), "where": private_models.__file__}
    return {"statusCode": 200, "body": seen}
