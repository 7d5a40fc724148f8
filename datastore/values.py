"""How a value looks in etcd: one JSON object with the version of its form.

The version is the platform's, not the user's: it is added on the way in and taken off on the way
out, and a value of another version is refused by name rather than half understood.
"""

from __future__ import annotations

import json
from typing import Any

from proto.types.errors import SlicewiseError

VERSION = 1

Value = dict[str, Any]


def encode(value: Value) -> bytes:
    """The bytes to store; raises ValueError for NaN and infinities, which JSON does not have."""
    return json.dumps({"v": VERSION, **value}, separators=(",", ":"), allow_nan=False).encode()


def decode(key: str, data: bytes) -> Value:
    """The value in stored bytes; raises SlicewiseError `internal` when this version cannot read it."""
    try:
        value = json.loads(data)
    except ValueError as error:
        raise SlicewiseError("internal", f"The value of {key} in etcd is not JSON.") from error
    if not isinstance(value, dict):
        raise SlicewiseError("internal", f"The value of {key} in etcd is not a JSON object.")
    version = value.pop("v", None)
    if version != VERSION:
        raise SlicewiseError(
            "internal",
            f"The value of {key} in etcd has version {version!r}; this Slicewise reads version {VERSION} only.",
        )
    return value
