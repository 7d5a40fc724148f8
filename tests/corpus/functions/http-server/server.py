"""A server from the standard library alone."""

import http.server
import json
import sys

import torch

torch.manual_seed(54)
model = torch.nn.Linear(2, 1).to("cuda").eval()


class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        x = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with torch.no_grad():
            y = model(torch.tensor(x, dtype=torch.float32, device="cuda"))
        answer = json.dumps({"shape": list(y.shape), "bias": round(model.bias.item() * 0, 1)}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)


if __name__ == "__main__":
    http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
