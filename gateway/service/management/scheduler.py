"""/system/scheduler/* and /system/models: the scheduler's own words, under the gateway's authentication."""

from __future__ import annotations

from flask import Blueprint, Response

from gateway.service.management.parts import body, document, parts

routes = Blueprint("scheduler", __name__)


@routes.get("/system/scheduler/policy")
def policy() -> Response:
    """Name and parameters."""
    here = parts()
    return document(here.bridge.run(here.scheduler.policy()))


@routes.put("/system/scheduler/policy")
def set_policy() -> Response:
    """The policy as it is now; a bad one is 400 and changes nothing."""
    here = parts()
    return document(here.bridge.run(here.scheduler.set_policy(body())))


@routes.get("/system/scheduler/state")
def state() -> Response:
    """Slices and queues."""
    here = parts()
    return document(here.bridge.run(here.scheduler.state()))


@routes.get("/system/scheduler/explain/<path:call_id>")
def explain(call_id: str) -> Response:
    """Why a call is where it is; 404 when nothing is kept of it."""
    here = parts()
    return document(here.bridge.run(here.scheduler.explain(call_id)))


@routes.get("/system/scheduler/pools")
def pools() -> Response:
    """Slice id to pool."""
    here = parts()
    return document(here.bridge.run(here.scheduler.pools()))


@routes.put("/system/scheduler/pools")
def set_pools() -> Response:
    """The pools as they are now: a slice that must drain first is in its old one; a bad wish is 400, all stays."""
    here = parts()
    return document(here.bridge.run(here.scheduler.set_pools(body())))


@routes.get("/system/models")
def models() -> Response:
    """What is registered, and where it is cached."""
    here = parts()
    return document(here.bridge.run(here.scheduler.models()))
