"""A WSGI application without a framework; gunicorn loads it once and forks two workers."""

import json

import torch

torch.manual_seed(51)
MODEL = torch.nn.Linear(2, 2)
MODEL.cuda().eval()


def application(environ, start_response):
    body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
    with torch.inference_mode():
        y = MODEL(torch.tensor(json.loads(body)).float().cuda())
    start_response("200 OK", [("Content-Type", "application/json")])
    return [json.dumps({"y": y.tolist()}).encode()]
