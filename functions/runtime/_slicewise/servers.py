"""Where each server and framework has a request's headers, and so the token of its invocation.

Each function is called once with the module it is about, right after that was imported. What a
server runs for a request, it runs in a thread or task that has this context, or a copy of it.
"""

import functools

from .context import call

HEADER = "x-slicewise-call"
_ASGI_HEADER = HEADER.encode()
_WSGI_KEY = "HTTP_X_SLICEWISE_CALL"


def _take_scope(scope) -> None:
    if scope.get("type") in ("http", "websocket"):
        found = (value for key, value in scope.get("headers", ()) if key.lower() == _ASGI_HEADER)
        call.set(next(found, b"").decode("latin-1"))


class _Application:
    """An ASGI 3 application that takes the token before it runs another."""

    def __init__(self, application) -> None:
        self._application = application

    def __getattr__(self, name):
        return getattr(self._application, name)

    async def __call__(self, scope, receive, send):
        _take_scope(scope)
        await self._application(scope, receive, send)


def _wsgi_call(kind) -> None:
    """`kind.__call__` is a WSGI application."""
    original = kind.__call__

    @functools.wraps(original)
    def application(self, environ, start_response):
        # Not reset at the end: a streamed answer is made after this returns, in the same context.
        call.set(environ.get(_WSGI_KEY, ""))
        return original(self, environ, start_response)

    kind.__call__ = application


def _asgi_call(kind) -> None:
    """`kind.__call__` is an ASGI application, perhaps with more arguments."""
    original = kind.__call__

    @functools.wraps(original)
    async def application(self, scope, *args, **kwargs):
        _take_scope(scope)
        await original(self, scope, *args, **kwargs)

    kind.__call__ = application


def flask(module) -> None:
    """Flask applications, whatever serves them (flask.app)."""
    _wsgi_call(module.Flask)


def starlette(module) -> None:
    """Starlette's and FastAPI's applications, whatever serves them (starlette.applications)."""
    _asgi_call(module.Starlette)


def gunicorn(module) -> None:
    """Any WSGI application behind gunicorn's own workers (gunicorn.http.wsgi)."""
    create = module.create

    @functools.wraps(create)
    def create_with_token(*args, **kwargs):
        made = create(*args, **kwargs)
        call.set(made[1].get(_WSGI_KEY, ""))
        return made

    module.create = create_with_token


def gunicorn_asgi(module) -> None:
    """Any ASGI application behind gunicorn's ASGI worker (gunicorn.workers.gasgi)."""
    load = module.ASGIWorker.load_wsgi

    @functools.wraps(load)
    def load_wsgi(self):
        load(self)
        self.asgi = _Application(self.asgi)

    module.ASGIWorker.load_wsgi = load_wsgi


def uvicorn(module) -> None:
    """Any application behind uvicorn, gunicorn's uvicorn worker included (uvicorn.config)."""
    load = module.Config.load

    @functools.wraps(load)
    def load_application(self):
        load(self)
        self.loaded_app = _Application(self.loaded_app)

    module.Config.load = load_application


def hypercorn(module) -> None:
    """Any application behind hypercorn (hypercorn.app_wrappers)."""
    _asgi_call(module.ASGIWrapper)
    _asgi_call(module.WSGIWrapper)


def waitress(module) -> None:
    """Any application behind waitress (waitress.task)."""
    get_environment = module.WSGITask.get_environment

    @functools.wraps(get_environment)
    def get_environment_with_token(self):
        environ = get_environment(self)
        call.set(environ.get(_WSGI_KEY, ""))
        return environ

    module.WSGITask.get_environment = get_environment_with_token


def http_server(module) -> None:
    """Handlers of the standard library's server, and so wsgiref and werkzeug's own (http.server)."""
    parse_request = module.BaseHTTPRequestHandler.parse_request

    @functools.wraps(parse_request)
    def parse_request_with_token(self):
        well = parse_request(self)
        call.set(self.headers.get(HEADER, "") if well else "")
        return well

    module.BaseHTTPRequestHandler.parse_request = parse_request_with_token


def aiohttp(module) -> None:
    """aiohttp's web applications (aiohttp.web_app)."""
    handle = module.Application._handle

    @functools.wraps(handle)
    async def handle_with_token(self, request):
        call.set(request.headers.get(HEADER, ""))
        return await handle(self, request)

    module.Application._handle = handle_with_token
