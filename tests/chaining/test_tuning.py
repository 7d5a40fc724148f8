"""The choice of c."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.core.chains.model import Server, Service
from scheduler.core.chains.planning import plan
from scheduler.core.chains.tuning import TuneBy, tune
from tests.chaining.examples import ns

_RULES: list[TuneBy] = ["lower", "upper", "surrogate"]


def _default_setting(seconds: float = 0.9) -> tuple[Service, list[Server]]:
    """BLOOM-176B on 4 fast and 16 slow servers, as in section 4 of the paper; round trips are equal here."""
    servers = [Server(f"s{j}", 40 if j < 4 else 20, ns(seconds), ns(0.109 if j < 4 else 0.175)) for j in range(20)]
    return Service(70, 1.32, 0.11, 0.2, 0.7), servers


@pytest.mark.parametrize(("by", "published"), [("lower", {3, 8}), ("upper", {8}), ("surrogate", {2, 3})])
def test_the_default_setting_gives_the_known_choices(by: TuneBy, published: set[int]) -> None:
    service, servers = _default_setting()
    found = tune(service, servers, by)
    assert found is not None
    assert found.c in published


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.floats(1, 8), st.integers(1, 5), st.integers(0, 5)), min_size=1, max_size=5),
    st.integers(1, 8),
    st.sampled_from([0.03, 0.07, 0.5]),
    st.sampled_from([0.1, 1.0, 5.0]),
    st.sampled_from(_RULES),
)
def test_c_that_are_passed_over_are_never_better(
    sizes: list[tuple[float, int, int]], blocks: int, cache_gb: float, rate_rps: float, by: TuneBy
) -> None:
    service = Service(blocks, 1.0, cache_gb, rate_rps, 0.7)
    servers = [Server(f"s{j}", gb, ns(comm), ns(step)) for j, (gb, comm, step) in enumerate(sizes)]
    chosen = tune(service, servers, by)
    objectives: dict[int, float] = {}
    for c in range(1, service.most_jobs(servers) + 1):
        made = plan(service, servers, c)
        if by == "surrogate" and made.disjoint_chains is not None:
            objectives[c] = c * made.disjoint_chains
        elif by != "surrogate" and made.bounds is not None:
            objectives[c] = made.bounds.lower_s if by == "lower" else made.bounds.upper_s
    if not objectives:
        assert chosen is None
        return
    least = min(objectives.values())
    assert chosen == plan(service, servers, min(c for c, value in objectives.items() if value <= least * (1 + 1e-9)))


@pytest.mark.parametrize("by", _RULES)
def test_a_fine_cache_size_makes_many_c_but_few_that_differ(by: TuneBy) -> None:
    """About 10^9 values of c: looking at each would take hours, and the suite's limit is two minutes."""
    service, servers = _default_setting()
    fine = Service(service.blocks, service.block_gb, 4e-8, service.rate_rps, service.max_load)
    found = tune(fine, servers, by)
    assert found is not None
    assert found.c <= 4
    assert min(plan(fine, servers, c).bounds.lower_s for c in (1, 10, 10**3, 10**6)) >= found.bounds.lower_s  # type: ignore[union-attr]


def test_no_admissible_c() -> None:
    service, servers = _default_setting()
    assert tune(service, [], "lower") is None
    for by in _RULES:
        assert tune(service, servers[:2], by) is None  # no chain
        assert tune(Service(70, 1.32, 0.11, 1e3, 0.7), servers, by) is None  # too much to serve
