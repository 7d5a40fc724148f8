"""A server of the function's own, on a port that anybody may know."""

from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Mine(BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.send_response(200)
        self.send_header("Content-Length", "4")
        self.end_headers()
        self.wfile.write(b"mine")


ThreadingHTTPServer(("127.0.0.1", 5000), Mine).serve_forever()
