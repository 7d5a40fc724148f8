"""Jobs that are routed one by one, as PETALS and BPRR do: each takes cache slots along a path of its own.

A `Router` finds paths, and says how a job waits that finds no room. Sizes, times and the order of events are those
of queueing.py.
"""

from __future__ import annotations

import heapq
from abc import ABC, abstractmethod
from collections.abc import Sequence

from scheduler.core.chains.model import Placed, Server, Service
from simulator.chains.paths import Path, path_time_ns
from simulator.chains.queueing import Job, Served


class Slots:
    """The cache slots of all servers, and who holds them."""

    def __init__(self, service: Service, servers: Sequence[Server], placed: Sequence[Placed]) -> None:
        self.service = service
        self.servers = servers
        self.placed = sorted(placed, key=lambda node: node.server)
        self.total = {node.server: service.slots(servers[node.server], node.blocks) for node in placed}
        self.free = dict(self.total)

    def room(self, path: Path) -> bool:
        """Whether a session could start on this path now."""
        return all(self.free[hop.server] >= hop.blocks for hop in path)

    def take(self, path: Path, sign: int = 1) -> None:
        """Hold the slots of a path; with sign -1 give them back."""
        for hop in path:
            self.free[hop.server] -= sign * hop.blocks


class Router(ABC):
    """How one system finds paths and lets jobs wait. It sees the slots, the time, and mean times, not sizes."""

    @abstractmethod
    def arrive(self, job: int, now_ns: int) -> Path | None:
        """A job comes, or tries again: the path on which it starts now, or None."""

    @abstractmethod
    def retry_ns(self, job: int, now_ns: int) -> int | None:
        """When a job that did not start tries again by itself; None: it waits for a completion."""

    @abstractmethod
    def complete(self, job: int, now_ns: int) -> list[tuple[int, Path]]:
        """A job is done and its slots are free: who starts now, on which path."""


def simulate_sessions(slots: Slots, router: Router, jobs: Sequence[Job]) -> list[Served]:
    """Serve all jobs; records in the order of arrival, `chain` being the number of servers on the path.

    At one instant completions come first, then arrivals and retries, by job. The router must have a path for every
    job in the end; make one only where the placed blocks are complete.
    """
    served: list[Served | None] = [None] * len(jobs)
    paths: dict[int, Path] = {}
    events = [(job.at_ns, 1, index) for index, job in enumerate(jobs)]
    heapq.heapify(events)

    def start(index: int, path: Path, now_ns: int) -> None:
        slots.take(path)
        paths[index] = path
        finish_ns = now_ns + round(jobs[index].size * path_time_ns(slots.servers, path))
        served[index] = Served(jobs[index].at_ns, now_ns, finish_ns, len(path))
        heapq.heappush(events, (finish_ns, 0, index))

    while events:
        now_ns, kind, index = heapq.heappop(events)
        if kind == 0:
            slots.take(paths.pop(index), -1)
            for other, path in router.complete(index, now_ns):
                start(other, path, now_ns)
        elif (found := router.arrive(index, now_ns)) is not None:
            start(index, found, now_ns)
        elif (again_ns := router.retry_ns(index, now_ns)) is not None:
            heapq.heappush(events, (again_ns, 1, index))
    return [record for record in served if record is not None]
