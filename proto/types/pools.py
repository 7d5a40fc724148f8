"""Pools: which functions a slice serves. Every slice is in one of them.

`shared` serves every function that has no slices of its own; `reserved:NAME.NAMESPACE` serves that function alone.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from proto.types.slices import SHARED_POOL

_RESERVED = "reserved:"
_WISH = re.compile(r"(?P<count>[1-9][0-9]{0,3})(x(?P<gpcs>[1-9][0-9]{0,2})g)?")


@dataclass(frozen=True, slots=True)
class Reservation:
    """`count` slices of one function's own, of `gpcs` GPCs each; 0: of any size."""

    count: int
    gpcs: int = 0

    def takes(self, gpcs: int) -> bool:
        """Whether a slice of this size counts."""
        return self.gpcs in (0, gpcs)

    def __str__(self) -> str:
        return f"{self.count}x{self.gpcs}g" if self.gpcs else str(self.count)

    @classmethod
    def parse(cls, text: str) -> Reservation:
        """The inverse of `str()`; raises ValueError with a sentence for whoever wrote it."""
        found = _WISH.fullmatch(text.strip())
        if found is None:
            raise ValueError(f'{text[:40]!r} is neither a number of slices ("4") nor a number and a size ("2x3g")')
        return cls(int(found["count"]), int(found["gpcs"] or 0))


def reserved_for(function: str) -> str:
    """The pool of a function (NAME.NAMESPACE)."""
    return f"{_RESERVED}{function}"


def owner_of(pool: str) -> str:
    """The function that a pool is reserved for, "" for every other pool."""
    return pool.removeprefix(_RESERVED) if pool.startswith(_RESERVED) else ""


def serves(pool: str, function: str) -> bool:
    """Whether a slice in the pool may serve the function."""
    return pool == SHARED_POOL or pool == reserved_for(function)
