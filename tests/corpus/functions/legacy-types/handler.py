"""An old script: Variable, typed CUDA tensors, model.cuda() and no context managers."""

import json

import torch
import torch.nn as nn
from torch.autograd import Variable

use_cuda = torch.cuda.is_available()
FloatTensor = torch.cuda.FloatTensor if use_cuda else torch.FloatTensor
LongTensor = torch.cuda.LongTensor if use_cuda else torch.LongTensor

torch.manual_seed(74)
if use_cuda:
    torch.cuda.manual_seed(74)
net = nn.Sequential(nn.Linear(2, 4), nn.Sigmoid(), nn.Linear(4, 3))
if use_cuda:
    net.cuda()


def handle(event, context):
    data = json.loads(event.body)
    inputs = Variable(FloatTensor(data))
    labels = Variable(torch.LongTensor([i % 3 for i in range(len(data))])).type(LongTensor)
    out = net(inputs)
    _, pred = out.data.max(1)
    right = pred.eq(labels.data).cpu().sum()
    mask = torch.zeros(3).type(FloatTensor)
    return {"pred": pred.cpu().numpy().tolist(), "right": int(right), "masked": (out.data * mask).sum().item()}
