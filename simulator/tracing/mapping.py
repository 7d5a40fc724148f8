"""Which function has which model's profile: a trace names functions, a scenario needs sizes and times.

Each function becomes a model of its own, for a worker never serves two functions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from proto.wire.fields import bad

POPULARITY, ROUND_ROBIN, NAME = RULES = ("popularity", "round-robin", "name")


def ordered(functions: Sequence[str], seen: Iterable[str], rule: str) -> list[str]:
    """`functions` come by popularity; `round-robin` takes them as they are first `seen`."""
    if rule != ROUND_ROBIN:
        return list(functions)
    return list(dict.fromkeys(function for function in seen if function in set(functions)))


def models_of(functions: Sequence[str], profiles: Mapping[str, Any], rule: str) -> dict[str, tuple[str, Any]]:
    """Function -> (name of its model in the scenario, profile); raises SlicewiseError `bad_request`.

    In turn the profiles' names are taken: a, b, a-2, b-2 ... `name` wants a profile of the function's name, with or
    without its namespace.
    """
    if not profiles:
        raise bad("models", "must have at least one model")
    if rule == NAME:
        return {function: _by_name(function, profiles) for function in functions}
    names, made = list(profiles), {}
    used: set[str] = set()
    for place, function in enumerate(functions):
        profile = names[place % len(names)]
        number, name = 1, profile
        while name in used or (number > 1 and name in profiles):
            number += 1
            name = f"{profile}-{number}"
        used.add(name)
        made[function] = (name, profiles[profile])
    return made


def _by_name(function: str, profiles: Mapping[str, Any]) -> tuple[str, Any]:
    for name in (function, function.partition(".")[0]):
        if name in profiles:
            return function, profiles[name]
    raise bad(f"models.{function}", "is missing, and --map name wants it; add it, or give --map popularity")
