"""Slices of a function's own: what a deployment asks for, and what its describe says while it has fewer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gateway.core import gpu
from gateway.core.bodies import refuse
from gateway.core.deployment import Deployment
from proto.types.identity import FunctionKey
from proto.types.pools import Reservation, reserved_for

FIELD = f"annotations.{gpu.RESERVE}"


def reservation(deployment: Deployment, on_slices: bool) -> str:
    """The annotation as "4" or "2x3g", "" without one; raises SlicewiseError `bad_function`.

    `on_slices`: slices serve the function.
    """
    given = deployment.annotations.get(gpu.RESERVE) or deployment.labels.get(gpu.RESERVE)
    if not given:
        return ""
    try:
        wish = Reservation.parse(given)
    except ValueError as error:
        raise refuse(FIELD, str(error)) from error
    if not on_slices:
        raise refuse(FIELD, f"is for functions that slices serve; {gpu.FLAG} is not true here")
    return str(wish)


def lack(key: FunctionKey, reserve: str, slices: Sequence[Mapping[str, Any]] | None) -> str:
    """Why the function does not have what it reserves, "" if it does; `slices` as the scheduler shows them, None
    while it is away."""
    if slices is None:
        return f"It reserves {reserve}, and whether it has that is not known: the scheduler is away."
    wish, pool = Reservation.parse(reserve), reserved_for(str(key))
    fit = [item for item in slices if wish.takes(item["gpcs"])]
    has = sum(item["pool"] == pool and not item.get("moving_to") for item in fit)
    if has >= wish.count:
        return ""
    drain = sum(item.get("moving_to") == pool for item in fit)
    coming = f"; {drain} more will be when what runs there has ended" if drain else ""
    return f"It reserves {reserve}: {has} of {wish.count} slices are its own{coming}."
