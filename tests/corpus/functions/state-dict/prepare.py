import torch
from model import Regressor

torch.manual_seed(2)
torch.save(Regressor(6, 32).state_dict(), "weights.pth")
