"""Which replica gets the next call: the one with the fewest calls in flight, ties by index."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol, TypeVar


class Choosable(Protocol):
    """A replica as far as choosing goes; read-only here."""

    @property
    def id(self) -> str:
        """Its identity."""

    @property
    def generation(self) -> int:
        """The deploy it was started for."""

    @property
    def in_flight(self) -> int:
        """Calls that this gateway has sent it and that have not ended."""


Replica = TypeVar("Replica", bound=Choosable)


def choose(ready: Sequence[Replica], avoid: Collection[str] = ()) -> Replica | None:
    """The replica for the next call, None without any.

    The newest generation wins over older ones, which answer only until it is ready; one that has
    just failed (`avoid`, ids) is taken only when there is no other.
    """
    best: Replica | None = None
    best_rank: tuple[bool, int, int] | None = None
    for replica in ready:
        rank = (replica.id in avoid, -replica.generation, replica.in_flight)
        if best_rank is None or rank < best_rank:
            best, best_rank = replica, rank
    return best
