import json
import time

import torch
from torch import nn

torch.manual_seed(13)
model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 2))
model = model.to("cuda").eval()

# The first call is slow: make it before anybody waits.
with torch.no_grad():
    started = time.time()
    for _ in range(3):
        model(torch.zeros(1, 3, 8, 8, device="cuda"))
    torch.cuda.synchronize()
    print(f"warmed up in {time.time() - started:.3f} s")


def handle(event, context):
    grey = torch.tensor(json.loads(event.body), dtype=torch.float32, device="cuda")
    image = grey.expand(3, -1, -1).unsqueeze(0)
    with torch.no_grad():
        return {"statusCode": 200, "body": {"scores": model(image)[0].tolist()}}
