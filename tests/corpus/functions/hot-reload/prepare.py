import torch
from torch import nn

for version in (1, 2):
    torch.manual_seed(version)
    torch.save(nn.Linear(3, 2).state_dict(), f"v{version}.pt")
