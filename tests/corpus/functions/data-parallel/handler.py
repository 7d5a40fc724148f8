import json

import torch
from torch import nn

torch.manual_seed(47)
net = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 2))
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
if torch.cuda.device_count() > 1:
    print("Let's use", torch.cuda.device_count(), "GPUs!")
net = nn.DataParallel(net)
net.to(device)
net.eval()


def handle(event, context):
    inputs = torch.tensor(json.loads(event.body)).float().to(device)
    with torch.no_grad():
        outputs = net(inputs)
        inner = net.module(inputs)
    return {"outputs": outputs.tolist(), "same": torch.equal(outputs, inner), "names": sorted(net.state_dict())}
