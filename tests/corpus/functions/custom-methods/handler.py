import json

import torch
from torch import nn


class VAE(nn.Module):
    def __init__(self, size=8, latent=2):
        super().__init__()
        self.latent = latent
        self.enc = nn.Linear(size, 16)
        self.mu = nn.Linear(16, latent)
        self.logvar = nn.Linear(16, latent)
        self.dec = nn.Sequential(nn.Linear(latent, 16), nn.ReLU(), nn.Linear(16, size))

    def encode(self, x):
        h = torch.relu(self.enc(x))
        return self.mu(h), self.logvar(h)

    def decode(self, z):
        return torch.sigmoid(self.dec(z))

    def forward(self, x):
        mu, logvar = self.encode(x)
        return self.decode(mu), mu, logvar

    @torch.no_grad()
    def interpolate(self, a, b, steps=3):
        (za, _), (zb, _) = self.encode(a), self.encode(b)
        return [self.decode(torch.lerp(za, zb, w)) for w in torch.linspace(0, 1, steps).tolist()]

    @property
    def device(self):
        return next(self.parameters()).device


torch.manual_seed(11)
vae = VAE().to("cuda").eval()


def handle(event, context):
    a, b = torch.tensor(json.loads(event.body), dtype=torch.float32).to(vae.device)
    reconstruction, mu, logvar = vae(a)
    codes = vae.encode(torch.stack([a, b]))
    return {
        "reconstruction": reconstruction.tolist(),
        "error": torch.nn.functional.mse_loss(reconstruction, a).item(),
        "mu": mu.tolist(),
        "std": (0.5 * logvar).exp().tolist(),
        "codes": [c.tolist() for c in codes],
        "corner": vae.decode(torch.zeros(1, vae.latent, device=vae.device)).tolist(),
        "between": [step.tolist() for step in vae.interpolate(a, b, steps=4)],
    }
