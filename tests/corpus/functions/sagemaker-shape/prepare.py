import torch
from inference import Net

torch.manual_seed(77)
with open("model.pth", "wb") as file:
    torch.save(Net().state_dict(), file)
