"""Whether two answers are the same: as JSON whose numbers, unless whole, may differ a little, else byte for byte."""

from __future__ import annotations

import json
import math
from typing import Any

from slicewise.checking.request import Answer

# As torch.allclose, with room for what another number of threads or another order of sums makes of float32.
RTOL, ATOL = 1e-4, 1e-5
_SHOWN = 60
_AROUND = 16


def difference(local: Answer, platform: Answer) -> str:
    """The first difference between the two in one line, "" if there is none."""
    if local.status != platform.status:
        return f"status: {local.status} locally, {platform.status} on the platform"
    if local.body == platform.body:
        return ""
    try:
        return _json("$", json.loads(local.body), json.loads(platform.body))
    except (ValueError, RecursionError):
        return _bytes(local.body, platform.body)


def _json(path: str, local: Any, platform: Any) -> str:
    if _is_number(local) and _is_number(platform):
        return "" if _close(local, platform) else _differ(path, local, platform)
    if isinstance(local, dict) and isinstance(platform, dict):
        for key in local:
            if key not in platform:
                return f"{path}.{key}: only locally"
        for key in platform:
            if key not in local:
                return f"{path}.{key}: only on the platform"
        return next((found for key in local if (found := _json(f"{path}.{key}", local[key], platform[key]))), "")
    if isinstance(local, list) and isinstance(platform, list):
        for index, (one, other) in enumerate(zip(local, platform, strict=False)):
            if found := _json(f"{path}[{index}]", one, other):
                return found
        if len(local) != len(platform):
            return f"{path}: {len(local)} items locally, {len(platform)} on the platform"
        return ""
    return "" if type(local) is type(platform) and local == platform else _differ(path, local, platform)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _close(local: float, platform: float) -> bool:
    if isinstance(local, int) and isinstance(platform, int):
        return local == platform  # ids and counts: the next one is another one
    try:
        one, other = float(local), float(platform)
    except OverflowError:
        return local == platform
    if math.isnan(one) or math.isnan(other):
        return math.isnan(one) and math.isnan(other)
    return one == other or abs(one - other) <= ATOL + RTOL * abs(one)


def _differ(path: str, local: Any, platform: Any) -> str:
    return f"{path}: {_short(local)} locally, {_short(platform)} on the platform"


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"


def _bytes(local: bytes, platform: bytes) -> str:
    shared = min(len(local), len(platform))
    at = next((index for index in range(shared) if local[index] != platform[index]), shared)
    start = max(0, at - _AROUND)
    one, other = local[start : at + _AROUND], platform[start : at + _AROUND]
    return f"byte {at} (of {len(local)} and {len(platform)}): {one!r} locally, {other!r} on the platform"
