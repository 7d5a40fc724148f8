"""/system/secrets: values go in and never come out."""

from __future__ import annotations

from typing import Any

from flask import Blueprint, Response

from gateway.core import bodies
from gateway.service.management.parts import accepted, body, document, namespace, parts
from proto.types.errors import SlicewiseError

routes = Blueprint("secrets", __name__)


def _name(fields: dict[str, Any]) -> str:
    name = fields.get("name")
    if not isinstance(name, str) or not name:
        raise SlicewiseError("bad_request", "name: is required.")
    return name


@routes.get("/system/secrets")
def list_secrets() -> Response:
    """Names only."""
    where = namespace()
    here = parts()
    names = here.bridge.read(lambda: here.vault.names(where))
    return document([{"name": name, "namespace": where} for name in names])


@routes.post("/system/secrets")
def create() -> Response:
    """409 where it exists: faas-cli then replaces it."""
    fields = body()
    here = parts()
    here.bridge.run(here.vault.create(namespace(fields), _name(fields), bodies.secret_value(fields)))
    return accepted()


@routes.put("/system/secrets")
def replace() -> Response:
    """The functions that use it get the new value."""
    fields = body()
    here = parts()
    where, name = namespace(fields), _name(fields)
    here.bridge.run(here.vault.replace(where, name, bodies.secret_value(fields)))
    here.bridge.run(here.deployer.secret_changed(where, name))
    return accepted()


@routes.delete("/system/secrets")
def remove() -> Response:
    """Functions that use it keep it until they are deployed again."""
    fields = body()
    here = parts()
    here.bridge.run(here.vault.remove(namespace(fields), _name(fields)))
    return accepted()
