import torch
from networks.encoder import build

torch.manual_seed(3)
model = build({"width": 12, "depth": 2})
state = {f"module.{name}": value for name, value in model.state_dict().items()}
torch.save({"epoch": 7, "config": {"width": 12, "depth": 2}, "state_dict": state, "best": 0.91}, "checkpoint.tar")
