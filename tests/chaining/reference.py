"""Section 3 of the contract once more, by brute force: every c, every path, exact fractions.

It shares nothing with the core, and is slow and obvious on purpose. Only slots are floats, floored as the rule says.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

Exact = Fraction


class NoAdmissibleC(Exception):
    pass


def reference_plan(given: dict[str, Any]) -> dict[str, Any]:
    c = given.get("c", "auto")
    if c != "auto":
        return _plan(given, int(c))
    by = given.get("tune_by", "lower")
    largest = max((server["memory_gb"] for server in given["servers"]), default=0)
    scored = []
    for candidate in range(1, math.floor((largest - given["block_gb"]) / given["cache_gb"] + 1e-9) + 1):
        plan = _plan(given, candidate)
        if by == "surrogate":
            if plan["disjoint_chains"] is not None:
                scored.append((candidate * plan["disjoint_chains"], candidate, plan))
        elif given["rate_rps"] < plan["total_rate_rps"]:
            scored.append((plan["bounds"][f"{by}_s"], candidate, plan))
    if not scored:
        raise NoAdmissibleC
    least = min(score for score, _, _ in scored)
    return next(plan for score, _, plan in scored if score <= least * (1 + 1e-9))


def _plan(given: dict[str, Any], c: int) -> dict[str, Any]:
    blocks, servers, rate = given["blocks"], given["servers"], given["rate_rps"]
    comm = [round(server["comm_s"] * 1e9) for server in servers]
    step = [round(server["block_s"] * 1e9) for server in servers]
    m = [
        min(math.floor(server["memory_gb"] / (given["block_gb"] + given["cache_gb"] * c) + 1e-9), blocks)
        for server in servers
    ]
    # GBP-CR
    order = sorted(
        (j for j in range(len(servers)) if m[j] >= 1), key=lambda j: (Exact(comm[j] + step[j] * m[j], m[j]), j)
    )
    start: dict[int, int] = {}
    covered, time, rate_found, chains_found, disjoint = 0, 0, Exact(0), 0, None
    for j in order:
        start[j] = covered + 1 if covered + m[j] <= blocks else blocks - m[j] + 1
        covered = start[j] + m[j] - 1
        time += comm[j] + step[j] * m[j]
        if covered == blocks:
            rate_found += Exact(10**9, time)
            chains_found += 1
            if rate_found >= Exact(rate) / (Exact(given.get("max_load", 0.7)) * c) - Exact(1, 10**12):
                disjoint = chains_found
                break
            covered, time = 0, 0
    # GCA
    left = {
        j: math.floor((servers[j]["memory_gb"] - given["block_gb"] * m[j]) / given["cache_gb"] + 1e-9) for j in start
    }

    def paths(end: int) -> list[tuple[int, list[int], list[int]]]:
        """(time, servers, blocks at each) of every way from after block `end` to the last block."""
        if end == blocks:
            return [(0, [], [])]
        found = []
        for j in start:
            share = start[j] + m[j] - 1 - end
            if start[j] <= end + 1 and share >= 1 and left[j] >= share:
                for rest_time, rest, shares in paths(end + share):
                    found.append((comm[j] + step[j] * share + rest_time, [j, *rest], [share, *shares]))
        return found

    chains = []
    while options := paths(0):
        time, path, shares = min(options)
        capacity = min(left[j] // share for j, share in zip(path, shares, strict=True))
        for j, share in zip(path, shares, strict=True):
            left[j] -= share * capacity
        chains.append((path, time, capacity))
    total = float(sum((Exact(10**9 * capacity, time) for _, time, capacity in chains), Exact(0)))
    stable = rate < total
    return {
        "c": c,
        "placement": [{"server": servers[j]["id"], "first_block": start[j], "blocks": m[j]} for j in start],
        "chains": [
            {"servers": [servers[j]["id"] for j in path], "time_s": time / 1e9, "capacity": capacity}
            for path, time, capacity in chains
        ],
        "total_rate_rps": total,
        "bounds": {
            "lower_s": reference_bound([(t, c) for _, t, c in chains], rate) if stable else None,
            "upper_s": reference_bound([(t, c) for _, t, c in chains][::-1], rate) if stable else None,
        },
        "disjoint_chains": disjoint,
    }


def reference_bound(chains: list[tuple[int, int]], rate: float) -> float:
    """Theorem 3.7 term by term; `chains` as (ns, capacity) in the order in which jobs fill them."""
    lam = Exact(rate)
    slots = sum(capacity for _, capacity in chains)
    nu = sum((Exact(10**9 * capacity, time) for time, capacity in chains), Exact(0))

    def serving(n: int) -> Fraction:
        result, before = Exact(0), 0
        for time, capacity in chains:
            result += Exact(10**9, time) * min(capacity, max(n - before, 0))
            before += capacity
        return result

    w = [Exact(1)]
    for n in range(1, slots + 1):
        w.append(w[-1] * lam / serving(n))
    whole = sum(w[:slots], Exact(0)) + w[slots] * nu / (nu - lam)
    rho = lam / nu
    jobs = sum((n * w[n] for n in range(slots)), Exact(0)) / whole
    jobs += w[slots] / whole * (rho / (1 - rho) ** 2 + slots / (1 - rho))
    return float(jobs / lam)
