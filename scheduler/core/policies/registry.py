"""Policies by name, and the validation of what people ask for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from proto.types.errors import SlicewiseError
from scheduler.core.policies.base import Policy
from scheduler.core.policies.lalb import DEFAULT_O3_LIMIT, LocalityAware
from scheduler.core.policies.lb import LoadBalancing

_MAX_O3_LIMIT = 1_000_000


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


def _lalb(parameters: dict[str, Any]) -> Policy:
    limit = parameters.pop("o3_limit", DEFAULT_O3_LIMIT)
    _no_more(parameters, "lalb")
    whole = isinstance(limit, int | float) and not isinstance(limit, bool) and limit == limit // 1
    if not whole or not 0 <= limit <= _MAX_O3_LIMIT:
        raise SlicewiseError("bad_policy", f"o3_limit: {limit!r} is no whole number from 0 to {_MAX_O3_LIMIT}.")
    return LocalityAware(int(limit))


def _no_more(parameters: dict[str, Any], name: str) -> None:
    for key in parameters:
        raise SlicewiseError("bad_policy", f"{key}: {name} has no such parameter.")


_POLICIES: dict[str, Callable[[dict[str, Any]], Policy]] = {"lb": _lb, "lalb": _lalb}
