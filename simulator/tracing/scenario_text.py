"""A scenario as text: JSON, one slice, model or request a line, which YAML readers take as well and faster."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


def text(document: Mapping[str, Any]) -> str:
    """The file's content."""
    parts = [f"{json.dumps(key)}: {_value(value)}" for key, value in document.items()]
    return "{\n" + ",\n".join(parts) + "\n}\n"


def _value(value: Any) -> str:
    if isinstance(value, list) and value:
        return "[\n  " + ",\n  ".join(map(json.dumps, value)) + "\n]"
    if isinstance(value, dict) and value and all(isinstance(inner, dict) for inner in value.values()):
        return "{\n  " + ",\n  ".join(f"{json.dumps(key)}: {json.dumps(inner)}" for key, inner in value.items()) + "\n}"
    return json.dumps(value)
