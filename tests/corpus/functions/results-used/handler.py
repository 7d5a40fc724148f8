import json

import numpy as np
import torch
from torch import nn

torch.manual_seed(22)
model = nn.Linear(3, 4).cuda().eval()
prototypes = torch.eye(4)
threshold = torch.tensor(0.1)


def handle(event, context):
    x = torch.tensor(json.loads(event.body), dtype=torch.float32)
    with torch.no_grad():
        out = model(x.cuda())
        again = model(x.to(device="cuda", dtype=torch.float32))
    numbers = out.cpu().numpy()
    out2 = out.clone()
    out2[out2 < threshold] = 0
    out2 += 1
    return {
        "numpy": numbers.round(4).tolist(),
        "is_numpy": isinstance(numbers, np.ndarray),
        "item": out[0, 0].item(),
        "float": float(out.sum()),
        "int": int(out.argmax()),
        "argmax": out.argmax(dim=-1).tolist(),
        "with_local": (out - prototypes[: len(out)]).norm(dim=-1).tolist(),
        "product": (prototypes.cuda() @ out.T).tolist(),
        "masked": out2.tolist(),
        "cat": torch.cat([out, x.cuda()], dim=1).shape,
        "allclose": torch.allclose(out, again),
        "iterated": [row.max().item() for row in out],
        "compared": bool((out > threshold).any()),
        "text": f"{out[0, 0]:.3f}",
        "sorted": torch.sort(out, descending=True).indices.tolist(),
        "requires_grad": out.requires_grad,
        "length": len(out),
        "as_array": np.asarray(out).shape,
    }
