"""A model whose attributes come in an order that depends on PYTHONHASHSEED."""

import http.server
import json
import os
import sys

import torch

WORDS = [f"word-{number}" for number in range(40)]


class Tagger(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.known = set(WORDS)
        self.stop = frozenset(WORDS[::2])
        self.index = {word: len(word) for word in set(WORDS)}
        for word in set(WORDS[:8]):
            self.register_buffer(word.replace("-", "_"), torch.full((2,), float(word[5:])))

    def forward(self, numbers):
        return numbers + len(self.known) + self.word_3[0]


model = Tagger().to("cuda")


class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        value = model(torch.tensor([1.0])).item()
        seen = {"value": value, "seed": os.environ["PYTHONHASHSEED"], "order": list({*WORDS})[:5]}
        answer = json.dumps(seen).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_):
        pass


http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
