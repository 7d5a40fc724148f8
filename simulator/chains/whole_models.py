"""The baseline "JFFC only": no server shares a model with another (arXiv 2604.14993, section 4)."""

from __future__ import annotations

from collections.abc import Sequence

from scheduler.core.chains.model import Chain, Server, Service


def whole_model_chains(service: Service, servers: Sequence[Server]) -> list[Chain]:
    """Each server that holds all L blocks is a chain: capacity floor((M - s_m L) / (s_c L)), T = tc + tp L."""
    chains = []
    for j, server in enumerate(servers):
        capacity = service.slots(server, service.blocks) // service.blocks
        if service.hosted(server, 1) == service.blocks and capacity >= 1:
            chains.append(Chain((j,), server.time_ns(service.blocks), capacity))
    return sorted(chains, key=lambda chain: chain.time_ns)
