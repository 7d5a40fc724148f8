"""A policy is asked for by name; a bad wish is refused by the field at fault."""

from __future__ import annotations

from typing import Any

import pytest

from proto.types.errors import SlicewiseError
from scheduler.core.policies.registry import make_policy, policy_names


def test_defaults() -> None:
    assert policy_names() == ("elsa", "fifs", "lalb", "lb")
    assert make_policy({"name": "lalb"}).parameters() == {"name": "lalb", "o3_limit": 25}
    assert make_policy({"name": "lalb", "o3_limit": 2.0}).parameters()["o3_limit"] == 2
    assert make_policy({"name": "lb"}).parameters() == {"name": "lb"}
    assert make_policy({"name": "fifs"}).parameters() == {"name": "fifs"}
    assert make_policy({"name": "elsa", "beta": 2}).parameters() == {"name": "elsa", "alpha": 1.0, "beta": 2.0}


@pytest.mark.parametrize(
    ("wish", "field"),
    [
        ({}, "name"),
        ({"name": "fastest"}, "name"),
        ({"name": 3}, "name"),
        ({"name": "lb", "o3_limit": 3}, "o3_limit"),
        ({"name": "lalb", "o3_limit": -1}, "o3_limit"),
        ({"name": "lalb", "o3_limit": 1.5}, "o3_limit"),
        ({"name": "lalb", "o3_limit": True}, "o3_limit"),
        ({"name": "lalb", "o3_limit": "5"}, "o3_limit"),
        ({"name": "lalb", "o3_limit": float("nan")}, "o3_limit"),
        ({"name": "lalb", "alpha": 1}, "alpha"),
        ({"name": "fifs", "o3_limit": 3}, "o3_limit"),
        ({"name": "elsa", "o3_limit": 3}, "o3_limit"),
        ({"name": "elsa", "alpha": 0}, "alpha"),
        ({"name": "elsa", "alpha": True}, "alpha"),
        ({"name": "elsa", "alpha": 10**400}, "alpha"),
        ({"name": "elsa", "beta": -1}, "beta"),
        ({"name": "elsa", "beta": float("inf")}, "beta"),
        ({"name": "elsa", "beta": "1"}, "beta"),
    ],
)
def test_a_bad_wish_names_its_field(wish: dict[str, Any], field: str) -> None:
    with pytest.raises(SlicewiseError) as refused:
        make_policy(wish)
    assert refused.value.code == "bad_policy"
    assert refused.value.message.startswith(f"{field}:")
