import os

import torch
from flask import Flask, Response, request, stream_with_context

app = Flask(__name__)
model = None


class Adder(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.one = torch.nn.Parameter(torch.ones(1))

    def forward(self, x):
        return x + self.one


def load():
    global model
    if model is None:
        model = Adder().cuda()
    return model


@app.post("/")
def count():
    start, steps = (int(word) for word in request.data.split())

    def lines():
        x = torch.tensor([float(start)], device="cuda")
        for _ in range(steps):
            x = load()(x)
            yield f"{x.item():.1f}\n"

    return Response(stream_with_context(lines()), mimetype="text/plain")


if __name__ == "__main__":
    app.run(host="0.0.0.0", port=int(os.environ.get("PORT", 5000)))
