"""Runs under the image's own virtualenv, and says so."""

import http.server
import json
import sys

import only_in_the_virtualenv
import torch


class Negative(torch.nn.Module):
    def forward(self, numbers):
        return -numbers


model = Negative().to("cuda")


class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        value = model(torch.tensor([6.0])).item()
        answer = json.dumps({"value": value, "prefix": sys.prefix, "word": only_in_the_virtualenv.WORD}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_):
        pass


http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
