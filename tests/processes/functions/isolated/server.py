"""Tells whether it is interposed; `-I` in the Dockerfile keeps Python from the runtime."""

import http.server
import sys


class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        import torch

        answer = f"{torch.cuda.is_available()} {'_slicewise' in sys.modules}".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_):
        pass


http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
