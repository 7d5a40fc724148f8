"""What the platform is, whether it is well, and which namespaces it has."""

from __future__ import annotations

import platform

from flask import Blueprint, Response, redirect
from werkzeug.wrappers import Response as AnyResponse

from gateway.service.management.parts import document, parts
from proto.types.errors import SlicewiseError

routes = Blueprint("info", __name__)


@routes.get("/healthz")
def health() -> Response:
    """As OpenFaaS: it fails when what runs functions fails."""
    why = parts().provider.health()
    if why:
        raise SlicewiseError("unavailable", why)
    return Response("OK", content_type="text/plain")


@routes.get("/system/info")
def info() -> Response:
    """faas-cli reads both version objects without looking whether they are there."""
    here = parts()
    version = {"sha": here.release, "release": here.release}
    return document(
        {
            "provider": {
                "provider": here.provider.name,
                "orchestration": here.provider.orchestration,
                "version": version,
            },
            "version": version,
            "arch": platform.machine(),
        }
    )


@routes.get("/system/namespaces")
def namespaces() -> Response:
    """The names."""
    return document(list(parts().namespaces.names))


@routes.get("/")
def root() -> AnyResponse:
    """The portal."""
    return redirect("/ui/", code=307)
