import torch
from torch import nn

for seed, name in enumerate(["de", "en", "fr"]):
    torch.manual_seed(seed)
    torch.save(nn.Linear(4, 2 + seed).state_dict(), f"{name}.pth")
