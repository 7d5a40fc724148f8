"""A vocoder in small: weight norm, spectral norm, and a hook that its author put on before the move."""

import json

import torch
from torch import nn
from torch.nn.utils import parametrizations


def keep_finite(module, inputs, output):
    return torch.nan_to_num(output)


class Vocoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = parametrizations.weight_norm(nn.ConvTranspose1d(2, 4, 4, 2, 1))
        self.mix = parametrizations.spectral_norm(nn.Linear(4, 4))
        self.out = nn.Conv1d(4, 1, 3, padding=1)
        self.out.register_forward_hook(keep_finite)

    def forward(self, x):
        x = torch.nn.functional.leaky_relu(self.up(x), 0.1)
        x = self.mix(x.transpose(1, 2)).transpose(1, 2)
        return torch.tanh(self.out(x))


torch.manual_seed(78)
model = Vocoder().eval().cuda()


def handle(event, context):
    mel = torch.tensor(json.loads(event.body)).float().unsqueeze(0).cuda()
    with torch.inference_mode():
        audio = model(mel).squeeze()
    samples = (audio * 32767).to(torch.int16).cpu().numpy()
    return {"length": len(samples), "type": str(samples.dtype), "audio": audio.tolist()}
