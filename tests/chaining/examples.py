"""The papers' small examples, and documents that tests vary."""

from __future__ import annotations

from typing import Any

from scheduler.core.chains.model import NS, Chain, Server, Service


def ns(seconds: float) -> int:
    return round(seconds * NS)


def figure_2(epsilon: float = 0.001) -> tuple[Service, list[Server]]:
    """Fig. 2 of arXiv 2604.14993: five servers j1 .. j5, L = 3, s_m = 1, s_c = 0.1."""
    servers = [
        Server(f"j{index}", 3.0 if index == 2 else 2.0, ns(2 if index == 2 else 1), ns(index * epsilon))
        for index in range(1, 6)
    ]
    return Service(3, 1.0, 0.1, 0.5, 0.7), servers


def figure_1(blocks: int, comm_s: float = 1.0, block_s: float = 0.5) -> tuple[Service, list[Server]]:
    """Fig. 1: as many servers as blocks, s_m = s_c = 1, M = L^2 + 1. The demand takes every server."""
    servers = [Server(f"j{index}", blocks**2 + 1.0, ns(comm_s), ns(block_s)) for index in range(blocks)]
    return Service(blocks, 1.0, 1.0, 1e6, 1.0), servers


def two_chains() -> list[Chain]:
    """mu = (1, 0.4), c = (3, 4)."""
    return [Chain((0,), NS, 3), Chain((1,), ns(2.5), 4)]


def document(**changes: Any) -> dict[str, Any]:
    """The contract's example with three more servers, so that chains exist; None takes a key out."""
    given = {
        "blocks": 70,
        "block_gb": 1.32,
        "cache_gb": 0.11,
        "rate_rps": 0.05,
        "servers": [
            {"id": f"s{index}", "memory_gb": 40, "comm_s": 0.5, "block_s": 0.109 + 0.01 * index} for index in range(4)
        ],
        **changes,
    }
    return {key: value for key, value in given.items() if value is not None}
