"""Times as OpenFaaS users write them: a whole number of seconds or a Go duration."""

from __future__ import annotations

import re

_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h)")


def seconds(text: str | None, default: float) -> float:
    """`1m5s`, `500ms` or `30` as seconds; what is none of these is `default`, as of-watchdog has it."""
    if not text:
        return default
    text = text.strip()
    if text.isdigit():
        return float(text)
    parts = _PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        return default
    return float(sum(float(number) * _UNITS[unit] for number, unit in parts))
