"""The Flask door: everything that a person or faas-cli asks for. Authentication has happened before it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Any

from flask import Flask, Response
from werkzeug.exceptions import HTTPException

from gateway.core import failing
from gateway.service.management import functions, info, later, scheduler, secrets
from gateway.service.management.parts import Parts, install
from proto.types.errors import SlicewiseError

_log = logging.getLogger(__name__)

_CODES = {404: "not_found", 405: "method_not_allowed", 413: "body_too_large"}
_SENTENCES = {
    404: "There is nothing at this path.",
    405: "This path does not know that method.",
    413: "The body is longer than a management request may be.",
}


def make_app(parts: Parts, max_body_bytes: int) -> Flask:
    """The application over the platform's parts."""
    app = Flask("gateway", static_folder=None)
    app.config["MAX_CONTENT_LENGTH"] = max_body_bytes
    app.config["PROVIDE_AUTOMATIC_OPTIONS"] = False
    app.url_map.strict_slashes = True
    app.url_map.redirect_defaults = False
    app.url_map.merge_slashes = False
    install(app, parts)
    for group in (functions, secrets, info, scheduler, later):
        app.register_blueprint(group.routes)
    app.register_error_handler(SlicewiseError, _failed)
    app.register_error_handler(HTTPException, _refused)
    app.register_error_handler(Exception, _broken)
    app.wsgi_app = _Terminated(app.wsgi_app)  # type: ignore[method-assign]
    return app


class _Terminated:
    """Tells Werkzeug that a chunked body has an end, which the server in front of us finds."""

    def __init__(self, app: Callable[..., Iterable[bytes]]) -> None:
        self._app = app

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        environ["wsgi.input_terminated"] = True
        return self._app(environ, start_response)


def _failed(error: SlicewiseError) -> Response:
    answer = failing.answer(error)
    return Response(answer.body, status=answer.status, headers=list(answer.headers))


def _refused(error: HTTPException) -> Any:
    code = error.code or 500
    if code < 400:
        return error
    if code in _CODES:
        response = _failed(SlicewiseError(_CODES[code], _SENTENCES[code]))
        if error.response is None and code == 405 and getattr(error, "valid_methods", None):
            response.headers["Allow"] = ", ".join(sorted(error.valid_methods))  # type: ignore[attr-defined]
        return response
    return _failed(SlicewiseError("bad_request" if code < 500 else "internal", f"{error.description or error.name}"))


def _broken(error: Exception) -> Response:
    _log.exception("a management request failed", exc_info=error)
    return _failed(SlicewiseError("internal", "The gateway failed to serve this; its log says why."))
