import torch
from net import DigitNet

torch.manual_seed(0)
torch.save(DigitNet(), "model.pt")
