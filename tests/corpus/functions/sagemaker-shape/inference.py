import io
import json
import os

import numpy as np
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden = nn.Linear(3, 8)
        self.out = nn.Linear(8, 1)

    def forward(self, x):
        return self.out(torch.relu(self.hidden(x)))


def model_fn(model_dir):
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = Net()
    with open(os.path.join(model_dir, "model.pth"), "rb") as f:
        model.load_state_dict(torch.load(f, map_location=device))
    return model.to(device)


def input_fn(request_body, content_type):
    if content_type == "text/csv":
        return torch.from_numpy(np.loadtxt(io.StringIO(request_body), delimiter=",", ndmin=2)).float()
    return torch.tensor(json.loads(request_body)["inputs"], dtype=torch.float32)


def predict_fn(input_data, model):
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model.eval()
    with torch.no_grad():
        return model(input_data.to(device))


def output_fn(prediction, accept="application/json"):
    return json.dumps(prediction.cpu().numpy().ravel().tolist())
