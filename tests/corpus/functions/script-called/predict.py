import argparse

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
parser.add_argument("numbers", nargs="+", type=float)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(3.0))

    def forward(self, x):
        return x * self.scale


def main():
    args = parser.parse_args()
    model = Model().to(args.device).eval()
    with torch.no_grad():
        y = model(torch.tensor(args.numbers, device=args.device))
    print(args.device, *y.tolist())


if __name__ == "__main__":
    main()
