"""When two answers are the same: floats to within the last bits, all else exactly, types included."""

from __future__ import annotations

import json
import math
from typing import Any

ABSOLUTE = 1e-5


def difference(found: bytes, wanted: bytes, rtol: float) -> str:
    """Where two bodies differ first, "" if they say the same; JSON is compared by its values."""
    try:
        values = json.loads(found), json.loads(wanted)
    except ValueError:
        return "" if found == wanted else f"{found!r} instead of {wanted!r}"
    return differing(*values, rtol)


def differing(found: Any, wanted: Any, rtol: float, where: str = "answer") -> str:
    """The same for decoded values."""
    if isinstance(found, float) and isinstance(wanted, float):
        same = math.isclose(found, wanted, rel_tol=rtol, abs_tol=max(ABSOLUTE, rtol / 10))
        return "" if same or (found != found and wanted != wanted) else f"{where}: {found} instead of {wanted}"
    if type(found) is not type(wanted):
        return f"{where}: {found!r} instead of {wanted!r}"
    if isinstance(found, dict):
        if found.keys() != wanted.keys():
            return f"{where}: keys {sorted(found)} instead of {sorted(wanted)}"
        pairs = [(f"{where}.{key}", value, wanted[key]) for key, value in found.items()]
    elif isinstance(found, list):
        if len(found) != len(wanted):
            return f"{where}: {len(found)} items instead of {len(wanted)}"
        pairs = [
            (f"{where}[{index}]", one, other) for index, (one, other) in enumerate(zip(found, wanted, strict=True))
        ]
    else:
        return "" if found == wanted else f"{where}: {found!r} instead of {wanted!r}"
    return next((said for place, one, other in pairs if (said := differing(one, other, rtol, place))), "")
