"""Which invocation this code runs for: a token that the broker sends with the request.

Threads and thread pools inherit it from whoever starts or feeds them; asyncio tasks do by
themselves. Flask, Starlette (and FastAPI) read the header X-Slicewise-Call; other servers'
calls carry no token and bind late.
"""

import contextvars
import threading

call = contextvars.ContextVar("slicewise_call", default="")
HEADER = "x-slicewise-call"
_WSGI_KEY = "HTTP_X_SLICEWISE_CALL"


def _bound(token, function):
    def run(*args, **kwargs):
        reset = call.set(token)
        try:
            return function(*args, **kwargs)
        finally:
            call.reset(reset)

    return run


def follow_threads() -> None:
    """Make threads and thread pools inherit the token."""
    start = threading.Thread.start

    def start_with_token(self):
        token = call.get()
        if token:
            self.run = _bound(token, self.run)
        return start(self)

    threading.Thread.start = start_with_token


def follow_pools(module) -> None:
    """Make `concurrent.futures.thread` hand the token of whoever submits to the work."""
    submit = module.ThreadPoolExecutor.submit

    def submit_with_token(self, fn, /, *args, **kwargs):
        token = call.get()
        return submit(self, _bound(token, fn) if token else fn, *args, **kwargs)

    module.ThreadPoolExecutor.submit = submit_with_token


def read_wsgi(module) -> None:
    """Make Flask applications take the token from their request's headers."""
    application = module.Flask.__call__

    def call_application(self, environ, start_response):
        # Not reset at the end: a streamed answer is made after this returns, in the same context.
        call.set(environ.get(_WSGI_KEY, ""))
        return application(self, environ, start_response)

    module.Flask.__call__ = call_application


def read_asgi(module) -> None:
    """Make Starlette applications, FastAPI's too, take the token from their request's headers."""
    application = module.Starlette.__call__

    async def call_application(self, scope, receive, send):
        if scope.get("type") in ("http", "websocket"):
            name = HEADER.encode()
            call.set(next((value.decode() for key, value in scope.get("headers", ()) if key.lower() == name), ""))
        await application(self, scope, receive, send)

    module.Starlette.__call__ = call_application
