"""Which slices are to be written to etcd now: the last value wins, at most five writes a second each.

A busy slice changes hundreds of times a second and nobody reads etcd that often; what matters is
that the last state always gets there, also after etcd was away.
"""

from __future__ import annotations

from typing import Any

INTERVAL_NS = 200_000_000

Value = dict[str, Any]


class Publishing:
    """The newest value of each key, and what has reached etcd. None stands for a deleted key."""

    def __init__(self, interval_ns: int = INTERVAL_NS) -> None:
        self._interval_ns = interval_ns
        self._newest: dict[str, Value | None] = {}
        self._written: dict[str, Value | None] = {}
        self._last_ns: dict[str, int] = {}

    def change(self, key: str, value: Value | None) -> None:
        """Have `value` written sometime soon."""
        self._newest[key] = value

    def due(self, now_ns: int) -> list[tuple[str, Value | None]]:
        """What may be written at this moment, longest unwritten first."""
        for key in [key for key in self._last_ns if key not in self._newest]:
            if now_ns >= self._last_ns[key] + self._interval_ns:
                del self._last_ns[key]  # deleted, and long enough ago not to count
        ready = [key for key in self._pending() if now_ns >= self._due_ns(key, now_ns)]
        return [(key, self._newest[key]) for key in sorted(ready, key=lambda key: self._last_ns.get(key, 0))]

    def next_ns(self, now_ns: int) -> int | None:
        """When something will be due, None if all is written."""
        return min((self._due_ns(key, now_ns) for key in self._pending()), default=None)

    def attempted(self, key: str, value: Value | None, now_ns: int, done: bool) -> None:
        """Note a write, also one that failed: it counts against the rate and is due again."""
        self._last_ns[key] = now_ns
        if done:
            self._written[key] = value
            if value is None and self._newest.get(key, value) is None:
                self._newest.pop(key, None)
                self._written.pop(key, None)

    def _pending(self) -> list[str]:
        return [key for key, value in self._newest.items() if key not in self._written or self._written[key] != value]

    def _due_ns(self, key: str, now_ns: int) -> int:
        last = self._last_ns.get(key)
        return now_ns if last is None else last + self._interval_ns
