"""Policies by name, and the validation of what people ask for."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from proto.types.errors import SlicewiseError
from scheduler.core.policies.base import Policy
from scheduler.core.policies.elsa import Elsa
from scheduler.core.policies.lalb import DEFAULT_O3_LIMIT, LocalityAware
from scheduler.core.policies.lb import FirstIdleFirstServe, LoadBalancing


def make_policy(wish: Mapping[str, Any]) -> Policy:
    """The policy that `{"name": ..., parameters}` names.

    Raises SlicewiseError `bad_policy`, naming the field at fault, for an unknown name, an unknown
    parameter or one outside its range.
    """
    if not isinstance(wish, Mapping):
        raise SlicewiseError("bad_policy", 'A policy is an object such as {"name": "lalb", "o3_limit": 25}.')
    name = wish.get("name")
    make = _POLICIES.get(name) if isinstance(name, str) else None
    if make is None:
        raise SlicewiseError("bad_policy", f"name: {name!r} is no policy; there are {', '.join(sorted(_POLICIES))}.")
    return make({key: value for key, value in wish.items() if key != "name"})


def policy_names() -> tuple[str, ...]:
    """All names, sorted."""
    return tuple(sorted(_POLICIES))


def _lb(parameters: dict[str, Any]) -> Policy:
    _no_more(parameters, "lb")
    return LoadBalancing()


def _fifs(parameters: dict[str, Any]) -> Policy:
    _no_more(parameters, "fifs")
    return FirstIdleFirstServe()


def _elsa(parameters: dict[str, Any]) -> Policy:
    factors = {key: _factor(key, parameters.pop(key, 1.0)) for key in ("alpha", "beta")}
    _no_more(parameters, "elsa")
    return Elsa(**factors)


def _lalb(parameters: dict[str, Any]) -> Policy:
    limit = parameters.pop("o3_limit", DEFAULT_O3_LIMIT)
    _no_more(parameters, "lalb")
    if not _number(limit) or limit != limit // 1 or limit < 0:
        raise SlicewiseError("bad_policy", f"o3_limit: {limit!r} is no whole number from 0 on.")
    return LocalityAware(int(limit))


def _factor(key: str, value: Any) -> float:
    if not _number(value) or value <= 0:
        raise SlicewiseError("bad_policy", f"{key}: {value!r} is no number above 0.")
    return float(value)


def _number(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number beyond every float
        return False


def _no_more(parameters: dict[str, Any], name: str) -> None:
    for key in parameters:
        raise SlicewiseError("bad_policy", f"{key}: {name} has no such parameter.")


_POLICIES: dict[str, Callable[[dict[str, Any]], Policy]] = {"lb": _lb, "fifs": _fifs, "lalb": _lalb, "elsa": _elsa}
