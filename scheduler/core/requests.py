"""Requests that wait for a slice: the papers' global queue, ordered by arrival.

The queue is indexed by worker key, because every policy that knows about locality asks "who is first
in line for what this slice holds"; it leaves to the core who may enter and to the policy who goes.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from operator import attrgetter


@dataclass(slots=True, eq=False)
class Request:
    """One call that wants a slice. Times are the core's clock in nanoseconds; `deadline_ns` 0 is none.

    `skips` counts later requests that went ahead of it; `order` is its place in line.
    """

    owner: str
    call_id: str
    worker: str
    batch: int
    sla_ns: int
    arrived_ns: int
    deadline_ns: int
    sequence: int
    skips: int = 0
    late: bool = False
    avoid: frozenset[str] = frozenset()
    order: tuple[int, int] = field(init=False)

    def __post_init__(self) -> None:
        self.order = (self.arrived_ns, self.sequence)

    @property
    def function(self) -> str:
        """NAME.NAMESPACE of the function it belongs to."""
        return self.worker.rpartition("@")[0]


_order = attrgetter("order")


class GlobalQueue:
    """All requests not bound yet, oldest first; ties in the order they came in."""

    def __init__(self) -> None:
        self._line: list[Request] = []
        self._by_worker: dict[str, list[Request]] = {}
        self._most_skips = 0  # never below the true maximum

    def __len__(self) -> int:
        return len(self._line)

    def __iter__(self) -> Iterator[Request]:
        return iter(self._line)

    @property
    def head(self) -> Request | None:
        """The oldest request."""
        return self._line[0] if self._line else None

    @property
    def workers(self) -> dict[str, list[Request]]:
        """Worker key -> its requests, oldest first; only keys that wait."""
        return self._by_worker

    def add(self, request: Request) -> None:
        """Put a request where its arrival time belongs."""
        if not self._line or self._line[-1].order < request.order:
            self._line.append(request)
        else:
            insort(self._line, request, key=_order)
        insort(self._by_worker.setdefault(request.worker, []), request, key=_order)
        self._most_skips = max(self._most_skips, request.skips)

    def remove(self, request: Request) -> None:
        """Take a request out, wherever it stands."""
        del self._line[self._position(self._line, request)]
        own = self._by_worker[request.worker]
        del own[self._position(own, request)]
        if not own:
            del self._by_worker[request.worker]
        if not self._line:
            self._most_skips = 0

    def overtake(self, request: Request) -> int:
        """`request` leaves ahead of all that stand before it: each of them was skipped once more."""
        position = self._position(self._line, request)
        most = self._most_skips
        for waiting in islice(self._line, position):
            waiting.skips += 1
            if waiting.skips > most:
                most = waiting.skips
        self._most_skips = most
        return position

    def first_skipped(self, limit: int) -> Request | None:
        """The oldest request that was overtaken `limit` times or more, None if there is none.

        It is nearly always the head: whoever overtakes a request overtakes all before it. Requests that
        were sent again and took their old place in line are the exception.
        """
        if self._most_skips < limit:
            return None
        for request in self._line:
            if request.skips >= limit:
                return request
        self._most_skips = max((request.skips for request in self._line), default=0)
        return None

    @staticmethod
    def _position(line: list[Request], request: Request) -> int:
        position = bisect_left(line, request.order, key=_order)
        if position == len(line) or line[position] is not request:
            raise KeyError(f"{request.call_id} is not in the queue")
        return position
