"""Checks of single values in a document: each error names the field and what it must be.

Numbers come back as they were given (an int stays one, so that nothing is lost before it is rounded), whole
numbers as int: 2.0 is one. A boolean is no number, and neither is NaN or an infinity.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from proto.types.errors import SlicewiseError
from proto.wire.documents import scalar


def bad(field: str, fix: str) -> SlicewiseError:
    """The error of bad input."""
    return SlicewiseError("bad_request", f"{field}: {fix}.")


def table(value: Any, field: str, required: Sequence[str], optional: Sequence[str] = ()) -> dict[str, Any]:
    """A mapping with these keys and no others; `field` "" is the whole document."""
    inner = f"{field}." if field else ""
    known = [*required, *optional]
    if not isinstance(value, dict):
        raise bad(field or "the document", f"must be a mapping with {', '.join(known)}")
    for key in value:
        if key not in known:
            raise bad(f"{inner}{key}", f"is no key here; there are {', '.join(known)}")
    for key in required:
        if key not in value:
            raise bad(f"{inner}{key}", "is missing; give it")
    return value


def named(value: Any, field: str, what: str) -> dict[str, Any]:
    """A mapping from names, all strings, to anything."""
    if not isinstance(value, dict):
        raise bad(field, f"must be a mapping of names to {what}")
    for key in value:
        text(key, f"the name {key} in {field}")
    return value


def items(value: Any, field: str, what: str) -> list[Any]:
    """A list."""
    if not isinstance(value, list):
        raise bad(field, f"must be a list of {what}")
    return value


def text(value: Any, field: str) -> str:
    """A string."""
    if not isinstance(value, str):
        raise bad(field, f'must be a string, not {value!r}; put it in quotes (such as "a1")')
    return value


def number(
    value: Any,
    field: str,
    *,
    least: float | None = None,
    above: float | None = None,
    most: float | None = None,
) -> float:
    """A finite number within its range."""
    low = f" of at least {least:g}" if least is not None else f" above {above:g}" if above is not None else ""
    high = f"{' and' if low else ' of'} at most {most:g}" if most is not None else ""
    wanted = f"must be a finite number{low}{high}, not {_short(value)}"
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise bad(field, wanted)
    try:
        finite = math.isfinite(value)
    except OverflowError:  # a whole number beyond every float
        finite = False
    if not finite or (least is not None and value < least) or (above is not None and value <= above):
        raise bad(field, wanted)
    if most is not None and value > most:
        raise bad(field, wanted)
    return value


def whole(value: Any, field: str, *, least: int) -> int:
    """An integer of at least `least`; 2.0 is one."""
    given = number(value, field, least=least)
    if given != int(given):
        raise bad(field, f"must be an integer of at least {least}, not {value!r}")
    return int(given)


def boolean(value: Any, field: str) -> bool:
    """True or false."""
    if not isinstance(value, bool):
        raise bad(field, f"must be true or false, not {_short(value)}")
    return value


def whole_keys(value: Any, field: str, what: str, *, least: int = 1) -> dict[int, Any]:
    """A mapping from whole numbers, quoted or not, to anything; at least one."""
    if not isinstance(value, dict) or not value:
        raise bad(field, f"must be a mapping of {what} with at least one entry")
    found: dict[int, Any] = {}
    for key, entry in value.items():
        size = whole(scalar(key) if isinstance(key, str) else key, f"the key {key} in {field}", least=least)
        if size in found:
            raise bad(f"{field}.{size}", "stands twice; keep one of them")
        found[size] = entry
    return found


def nanoseconds(value: float, field: str) -> int:
    """Seconds as whole nanoseconds, rounded once, half to even."""
    return scaled(value, field, "seconds")


def size_bytes(value: float, field: str) -> int:
    """Gigabytes (10^9 bytes) as whole bytes."""
    return scaled(value, field, "gigabytes")


def scaled(value: float, field: str, unit: str) -> int:
    """`round(value * 1e9)`; what leaves the range of a double is bad input."""
    try:
        return round(value * 1e9)
    except OverflowError as error:
        raise bad(field, f"{_short(value)} {unit} are too many; give fewer") from error


def _short(value: Any) -> str:
    shown = repr(value) if not isinstance(value, int) or abs(value) < 10**30 else "a number of so many digits"
    return shown if len(shown) <= 60 else f"{shown[:57]}..."
