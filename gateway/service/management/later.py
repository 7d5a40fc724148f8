"""What OpenFaaS has and this platform has not yet: 501 and a sentence, so that nobody looks for a typing error."""

from __future__ import annotations

from flask import Blueprint, Response

from gateway.core.failing import not_yet

routes = Blueprint("later", __name__)


@routes.post("/system/namespace/")
@routes.route("/system/namespace/<name>", methods=["GET", "PUT", "DELETE"])
def namespaces(name: str = "") -> Response:
    """Namespaces are set in the gateway's settings."""
    raise not_yet("Managing namespaces over HTTP")


@routes.get("/system/telemetry")
def telemetry() -> Response:
    """Undocumented in OpenFaaS as well."""
    raise not_yet("Telemetry")


@routes.post("/system/alert")
def alert() -> Response:
    """Scaling by AlertManager."""
    raise not_yet("Scaling by alerts")


@routes.get("/ui/")
@routes.get("/ui/<path:page>")
def portal(page: str = "") -> Response:
    """The portal."""
    raise not_yet("The portal")
