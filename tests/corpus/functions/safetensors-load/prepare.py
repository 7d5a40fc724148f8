import torch
from safetensors.torch import save_file

torch.manual_seed(4)
save_file(
    {
        "embed.weight": torch.randn(50, 8),
        "proj.weight": torch.randn(4, 8),
        "proj.bias": torch.randn(4),
    },
    "model.safetensors",
)
