import json

import torch
from torch import nn

torch.manual_seed(76)
torch.jit.script(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))).save("model.pt")
with open("index_to_name.json", "w") as file:
    json.dump({"0": "cat", "1": "dog", "2": "fish"}, file)
