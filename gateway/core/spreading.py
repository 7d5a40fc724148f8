"""Which host runs how many replicas of a function.

Replicas that run stay where they are as long as the number and the constraints allow; new ones go
to the allowed host with the fewest replicas of all functions, ties by the hosts' order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from proto.types.errors import SlicewiseError

_PREFIXES = ("node=", "node==")


def allowed(constraints: Sequence[str], hosts: Sequence[str]) -> list[str]:
    """The hosts that satisfy `node=NAME`; other constraints are left to providers that know them.

    Raises SlicewiseError `bad_function` when none does.
    """
    wanted = {c.replace(" ", "").removeprefix("node==").removeprefix("node=") for c in constraints if _is_node(c)}
    if not wanted:
        return list(hosts)
    fitting = [host for host in hosts if host in wanted]
    if not fitting:
        names = ", ".join(sorted(wanted))
        raise SlicewiseError("bad_function", f"constraints: there is no node {names}; there is {', '.join(hosts)}.")
    return fitting


def spread(
    replicas: int,
    constraints: Sequence[str],
    hosts: Sequence[str],
    running: Mapping[str, int],
    load: Mapping[str, int],
) -> dict[str, int]:
    """Replicas per host, hosts without any left out.

    `running` is what the hosts have of this function now, `load` what they have of all others.
    """
    fitting = allowed(constraints, hosts)
    if not fitting:
        raise SlicewiseError("unavailable", "There is no function host to run replicas on.")
    share = {host: running.get(host, 0) for host in fitting}
    while sum(share.values()) > replicas:
        fullest = max(fitting, key=lambda host: (share[host], fitting.index(host)))
        share[fullest] -= 1
    while sum(share.values()) < replicas:
        emptiest = min(fitting, key=lambda host: (share[host] + load.get(host, 0), fitting.index(host)))
        share[emptiest] += 1
    return {host: count for host, count in share.items() if count}


def _is_node(constraint: str) -> bool:
    return constraint.replace(" ", "").startswith(_PREFIXES)
