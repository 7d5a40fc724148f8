import json
import threading

import torch
from torch import nn

torch.manual_seed(42)
model = nn.Linear(2, 3).cuda().eval()


def work(x, results, i):
    with torch.no_grad():
        results[i] = model(x.cuda()).cpu()


def handle(event, context):
    rows = torch.tensor(json.loads(event.body)).float()
    results = [None] * len(rows)
    threads = [threading.Thread(target=work, args=(row, results, i)) for i, row in enumerate(rows)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return {"y": torch.stack(results).tolist()}
