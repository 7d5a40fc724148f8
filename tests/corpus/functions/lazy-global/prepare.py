import torch

torch.manual_seed(12)
torch.save({"layer.weight": torch.randn(3, 3), "layer.bias": torch.randn(3)}, "w.pt")
