"""Batch scoring of a data set with a DataLoader, as in a training script's evaluation."""

import json

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(30)
net = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 2)).to("cuda")
net.eval()


def handle(event, context):
    rows = json.loads(event.body)
    dataset = TensorDataset(torch.tensor([r[:2] for r in rows]).float(), torch.tensor([int(r[2]) for r in rows]))
    loader = DataLoader(dataset, batch_size=2, shuffle=False, pin_memory=True)
    criterion = nn.CrossEntropyLoss().cuda()
    correct, total, loss = 0, 0, 0.0
    staging = torch.empty(2, 2, pin_memory=True)
    with torch.no_grad():
        for inputs, targets in loader:
            staging[: len(inputs)].copy_(inputs, non_blocking=True)
            inputs, targets = inputs.to("cuda", non_blocking=True), targets.pin_memory().cuda(non_blocking=True)
            outputs = net(inputs)
            loss += criterion(outputs, targets).item() * len(targets)
            correct += (outputs.argmax(1) == targets).sum().item()
            total += targets.size(0)
    return {"accuracy": correct / total, "loss": loss / total, "staged": staging.tolist()}
