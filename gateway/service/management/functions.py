"""/system/functions, /system/function/NAME and /system/scale-function/NAME."""

from __future__ import annotations

from typing import Any

from flask import Blueprint, Response, request

from gateway.core import bodies, reserving, status
from gateway.service.management.parts import Parts, accepted, body, document, namespace, parts
from gateway.service.registry import unknown
from proto.types.errors import SlicewiseError
from proto.types.identity import FunctionKey

routes = Blueprint("functions", __name__)
_TRUE = frozenset({"1", "true", "t"})


@routes.get("/system/functions")
def list_functions() -> Response:
    """Every function of a namespace; the only place where invocations are counted."""
    where = namespace()
    here = parts()

    def look() -> list[dict[str, Any]]:
        return [
            status.render(entry.record, entry.facts, here.metrics.invocations(entry.full_name))
            for entry in here.registry.all(where)
        ]

    return document(here.bridge.read(look))


@routes.get("/system/function/<name>")
def describe(name: str) -> Response:
    """One function."""
    key = FunctionKey(namespace(), name)
    with_usage = request.args.get("usage", "").lower() in _TRUE
    here = parts()

    def look() -> tuple[dict[str, Any], str]:
        entry = here.registry.get(key)
        if entry is None:
            raise unknown(key)
        return status.render(entry.record, entry.facts, with_usage=with_usage), entry.record.reserve

    described, reserve = here.bridge.read(look)
    if reserve:
        _say_lack(described, reserving.lack(key, reserve, _slices(here)))
    return document(described)


def _slices(here: Parts) -> list[dict[str, Any]] | None:
    try:
        found: list[dict[str, Any]] = here.bridge.run(here.scheduler.state())["slices"]
    except SlicewiseError:
        return None
    return found


def _say_lack(described: dict[str, Any], lack: str) -> None:
    if lack:
        why = described["annotations"].get(status.WHY_ANNOTATION, "")
        described["annotations"][status.WHY_ANNOTATION] = f"{why} {lack}".strip()


@routes.post("/system/functions")
def create() -> Response:
    """Deploy; a function that exists is replaced."""
    here = parts()
    here.bridge.run(here.deployer.deploy(body(), must_exist=False))
    return accepted()


@routes.put("/system/functions")
def update() -> Response:
    """Deploy again; 404 tells faas-cli to create."""
    here = parts()
    here.bridge.run(here.deployer.deploy(body(), must_exist=True))
    return accepted()


@routes.delete("/system/functions")
def remove() -> Response:
    """Remove; running calls may finish."""
    fields = body()
    name = bodies.optional_text(fields, "functionName")
    if not name:
        raise SlicewiseError("bad_request", "functionName: is required.")
    here = parts()
    here.bridge.run(here.deployer.remove(FunctionKey(namespace(fields), name)))
    return accepted()


@routes.post("/system/scale-function/<name>")
def scale(name: str) -> Response:
    """Set the number of replicas; 0 is allowed and seen at once."""
    fields = body()
    here = parts()
    here.bridge.run(here.deployer.scale(FunctionKey(namespace(fields), name), bodies.replica_count(fields)))
    return accepted()
