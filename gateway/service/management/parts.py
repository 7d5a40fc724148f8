"""What every management handler uses: the platform's parts, the request's JSON, and how answers look.

Answers without a body are 202: several Go clients take a 201 or a 204 for a failure.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from flask import Response, current_app, request

from gateway.core import bodies
from gateway.core.names import Namespaces
from gateway.service.bridge import Bridge
from gateway.service.deploying import Deployer
from gateway.service.metrics import Metrics
from gateway.service.providers.base import Provider
from gateway.service.registry import Registry
from gateway.service.scheduling import SchedulerQueries
from gateway.service.vault import Vault

_EXTENSION = "slicewise"


@dataclass(frozen=True)
class Parts:
    """The gateway's parts as handlers need them. They belong to the event loop: reach them through `bridge`."""

    bridge: Bridge
    registry: Registry
    deployer: Deployer
    vault: Vault
    provider: Provider
    scheduler: SchedulerQueries
    metrics: Metrics
    namespaces: Namespaces
    release: str


def install(app: Any, parts: Parts) -> None:
    """Hand the parts to an application."""
    app.extensions[_EXTENSION] = parts


def parts() -> Parts:
    """The parts of the application that serves this request."""
    found: Parts = current_app.extensions[_EXTENSION]
    return found


def body() -> dict[str, Any]:
    """The request's JSON object, whatever its Content-Type says."""
    return bodies.read_object(request.get_data(cache=False))


def namespace(fields: dict[str, Any] | None = None) -> str:
    """The namespace in the body, else in the query: old clients use the one, new ones the other."""
    given = bodies.optional_text(fields, "namespace") if fields else None
    return parts().namespaces.resolve(given or request.args.get("namespace"))


def accepted() -> Response:
    """Done, or on its way."""
    return Response(status=202, content_type="text/plain; charset=utf-8")


def document(value: Any) -> Response:
    """A JSON answer."""
    return Response(json.dumps(value) + "\n", content_type="application/json")
