import asyncio
import json

import torch
from torch import nn

torch.manual_seed(44)
model = nn.Sequential(nn.Linear(2, 2), nn.Sigmoid()).to("cuda").eval()


def predict(x):
    with torch.no_grad():
        return model(torch.tensor(x, device="cuda").float()).tolist()


async def score(x):
    await asyncio.sleep(0)
    return await asyncio.get_running_loop().run_in_executor(None, predict, x)


async def main(items):
    first = await asyncio.to_thread(predict, items[0])
    rest = await asyncio.gather(*(score(x) for x in items[1:]))
    return [first, *rest]


def handle(event, context):
    return {"statusCode": 200, "body": json.dumps(asyncio.run(main(json.loads(event.body))))}
