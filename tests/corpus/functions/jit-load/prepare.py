import torch
from torch import nn


class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(3, 5)
        self.head = nn.Linear(5, 1)
        self.register_buffer("hidden", torch.zeros(1, 5))
        self.steps: int = 0

    def forward(self, x):
        self.hidden = self.cell(x, self.hidden)
        self.steps += 1
        return torch.sigmoid(self.head(self.hidden))

    @torch.jit.export
    def reset(self):
        self.hidden = torch.zeros(1, 5, device=self.hidden.device)
        self.steps = 0

    @torch.jit.export
    def count(self) -> int:
        return self.steps


torch.manual_seed(5)
torch.jit.script(Counter().eval()).save("counter.pt")
