import os

import torch

FACTOR = float(os.environ.get("FACTOR", "2"))


class Scale(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.factor = torch.nn.Parameter(torch.tensor([FACTOR]))

    def forward(self, numbers):
        return numbers * self.factor


model = Scale().to("cuda")


def handle(event, context):
    numbers = torch.tensor([float(word) for word in event.body.split()])
    rows = int(event.query.get("rows", 1))
    answer = model(numbers.repeat(rows, 1))
    same = bool((answer == answer[0]).all())
    return {"statusCode": 200, "body": {"first": answer[0].tolist(), "rows": len(answer), "same": same}}
