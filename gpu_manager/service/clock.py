"""The two clocks: monotonic for what is waited for, Unix for what others read."""

from __future__ import annotations

import time

SECOND_NS = 1_000_000_000


def now_ns() -> int:
    """Nanoseconds of the monotonic clock."""
    return time.monotonic_ns()


def from_unix(unix_ns: int) -> int:
    """A Unix time as the monotonic clock will show it."""
    return unix_ns - time.time_ns() + time.monotonic_ns()


def to_unix(mono_ns: int) -> int:
    """A monotonic time as a Unix time; 0 stays 0 (never)."""
    return mono_ns - time.monotonic_ns() + time.time_ns() if mono_ns else 0
