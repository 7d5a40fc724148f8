"""A function's own server: it knows nothing of handlers, and holds a call until a file is there."""

import http.server
import os
import sys
import time


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        begun, until = self.headers.get("X-Begun", ""), self.headers.get("X-Until", "")
        if begun:
            with open(begun, "w"):
                pass
        deadline = time.monotonic() + 60
        while until and not os.path.exists(until) and time.monotonic() < deadline:
            time.sleep(0.005)
        answer = f"{os.environ['WORD']} {self.path} {len(body)}".encode()
        self.send_response(201)
        self.send_header("Content-Length", str(len(answer)))
        self.send_header("X-Own", "yes")
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_):
        pass


http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
