"""Reading requests' JSON: objects only, whatever the Content-Type, and sentences that name the field."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from typing import Any

from proto.types.errors import SlicewiseError


def refuse(field: str, why: str) -> SlicewiseError:
    """The 400 for one field of a deploy request."""
    return SlicewiseError("bad_function", f"{field}: {why}.")


def read_object(data: bytes) -> dict[str, Any]:
    """The JSON object in `data`; raises SlicewiseError `bad_request` with the place of the mistake."""

    def no_constant(name: str) -> Any:
        raise ValueError(f"{name} is no JSON number")

    if not data.strip():
        raise SlicewiseError("bad_request", "The body is empty; it must be a JSON object.")
    try:
        value = json.loads(data, parse_constant=no_constant)
    except RecursionError as error:
        raise SlicewiseError(
            "bad_request", "The body is not JSON that can be read: it is nested too deeply."
        ) from error
    except ValueError as error:
        raise SlicewiseError("bad_request", f"The body is not JSON: {error}.") from error
    if not isinstance(value, dict):
        raise SlicewiseError("bad_request", "The body must be a JSON object.")
    return value


def optional_text(body: Mapping[str, Any], name: str) -> str | None:
    """A field that is a string, null or absent; raises SlicewiseError `bad_function` otherwise."""
    given = body.get(name)
    if given is not None and not isinstance(given, str):
        raise refuse(name, "must be a string")
    return given


def replica_count(body: Mapping[str, Any]) -> int:
    """`replicas` of a scale request: a whole number from 0; raises SlicewiseError `bad_request`."""
    given = body.get("replicas")
    if isinstance(given, float) and given.is_integer():
        given = int(given)
    if not isinstance(given, int) or isinstance(given, bool) or not 0 <= given < 2**31:
        raise SlicewiseError("bad_request", "replicas: must be a whole number, 0 or more.")
    return given


def secret_value(body: Mapping[str, Any]) -> bytes:
    """The bytes of a secret: `rawValue` (base64) wins over `value` (text); raises SlicewiseError `bad_secret`."""
    raw = body.get("rawValue")
    if raw is not None and raw != "":
        try:
            if not isinstance(raw, str):
                raise ValueError
            return base64.b64decode(raw, validate=True)
        except (ValueError, binascii.Error) as error:
            raise SlicewiseError("bad_secret", "rawValue: must be base64.") from error
    text = body.get("value")
    if not isinstance(text, str):
        raise SlicewiseError("bad_secret", "value: is required, as text, or rawValue as base64.")
    return text.encode()
