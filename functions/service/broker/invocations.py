"""Invocations of a GPU function (placeholder of this commit: the runtime's side comes next)."""

from __future__ import annotations

from proto.types.errors import SlicewiseError


class Invocation:
    """One call in flight."""

    token = b""

    def escaped(self, status: int, raised: str) -> SlicewiseError | None:
        """The platform's error behind a 500."""
        return None

    def answer_headers(self) -> list[tuple[bytes, bytes]]:
        """Headers for the caller."""
        return []

    def finish(self) -> None:
        """The call is over."""


class Invocations:
    """All calls in flight."""

    def begin(self, platform: dict[bytes, bytes]) -> Invocation:
        """A new call."""
        return Invocation()
