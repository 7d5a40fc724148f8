"""How many jobs a chain reserves memory for: the choice of c (arXiv 2604.14993, section 3.2.3).

Small c leaves few slots, large c few blocks a server and so long chains. Three measures of a c: the lower or the
upper bound of Theorem 3.7 on the mean response time of its plan, or the surrogate c K(c) of equation (14), which
needs no chains. The paper finds that the lower bound chooses best.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from scheduler.core.chains.model import Server, Service
from scheduler.core.chains.placement import Placement, place
from scheduler.core.chains.planning import ChainPlan, complete, plan

TuneBy = Literal["lower", "upper", "surrogate"]
_AS_GOOD = 1e-9  # relative: objectives nearer than this to the least are as good, and the smallest c wins


def tune(service: Service, servers: Sequence[Server], by: TuneBy) -> ChainPlan | None:
    """The plan of the smallest c in 1 .. c_max whose objective is the least to within 1e-9; None if none is admissible.

    A c is admissible for a bound if the total rate of its chains exceeds lambda, also where K(c) is infinite, and
    for the surrogate if K(c) is finite.
    """
    objectives = [
        (objective, c)
        for c, placement in _settings(service, servers)
        if (objective := _objective(service, servers, c, placement, by)) is not None
    ]
    if not objectives:
        return None
    least = min(objectives)[0]
    return plan(service, servers, next(c for objective, c in objectives if objective <= least * (1 + _AS_GOOD)))


def _objective(service: Service, servers: Sequence[Server], c: int, placement: Placement, by: TuneBy) -> float | None:
    if by == "surrogate":
        return None if placement.disjoint_chains is None else c * placement.disjoint_chains  # (14)
    found = complete(service, servers, c, placement).bounds
    if found is None:
        return None
    return found.lower_s if by == "lower" else found.upper_s


def _settings(service: Service, servers: Sequence[Server]) -> Iterator[tuple[int, Placement]]:
    """Each c that can be best, ascending, with its placement.

    A placement depends on c through m_j(c) and K(c) only, and neither rises with c while the other stays. Of a run of
    c with equal ones all bounds are equal and c K(c) is least at its first, so only that is looked at.
    """
    c, most = 1, service.most_jobs(servers)
    while c <= most:
        if sum(service.hosted(server, c) for server in servers) < service.blocks:
            return  # no chain, and larger c leave still fewer blocks
        yield c, place(service, servers, c)
        c = _end_of_run(service, servers, c, most) + 1


def _end_of_run(service: Service, servers: Sequence[Server], c: int, most: int) -> int:
    """The largest c' <= most with the m_j and K of c; by doubling steps, since a fine cache size makes many c."""

    def signature(c: int) -> tuple[list[int], int | None]:
        return [service.hosted(server, c) for server in servers], place(service, servers, c).disjoint_chains

    here, step = signature(c), 1
    while c + step <= most and signature(c + step) == here:
        c += step
        step *= 2
    while step := step // 2:
        if c + step <= most and signature(c + step) == here:
            c += step
    return c
