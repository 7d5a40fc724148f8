"""Durations as Go writes them, because every OpenFaaS user writes them so: `1m5s`, `500ms`, or bare seconds.

Times inside are whole nanoseconds, rounded once (half to even).
"""

from __future__ import annotations

import re
from fractions import Fraction

_UNIT_NS = {"ns": 1, "us": 10**3, "µs": 10**3, "μs": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9}
_PART = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)")
_BARE = re.compile(r"[0-9]+")
# Go's own bound is 2^63 nanoseconds; so is that of the wire's int64.
_MAX_NS = 2**63 - 1


def parse_ns(text: str) -> int:
    """Nanoseconds in a Go duration or a bare whole number of seconds; raises ValueError, negatives included."""
    trimmed = text.strip()
    if _BARE.fullmatch(trimmed):
        total = Fraction(int(trimmed) * 10**9)
    else:
        total, position = Fraction(0), 0
        while position < len(trimmed):
            part = _PART.match(trimmed, position)
            if part is None:
                break
            total += Fraction(part[1].rstrip(".") if not part[1].startswith(".") else "0" + part[1]) * _UNIT_NS[part[2]]
            position = part.end()
        if not trimmed or position != len(trimmed):
            raise ValueError(f"{text!r} is no duration: write it like 500ms, 90s or 1m30s")
    nanoseconds = round(total)
    if nanoseconds > _MAX_NS:
        raise ValueError(f"{text!r} is longer than a duration can be (292 years)")
    return nanoseconds
