"""The paper's default setting on measured round trips; skipped where the measurements are absent."""

from __future__ import annotations

from itertools import combinations

import pytest

from benchmarks.figures.setting import MEASUREMENTS, C, anchors, service, topology
from scheduler.core.chains.planning import plan
from scheduler.core.chains.tuning import tune

pytestmark = pytest.mark.skipif(not MEASUREMENTS.is_file(), reason=f"{MEASUREMENTS} is not there")


def test_round_trips_are_the_published_ones() -> None:
    places = anchors()
    assert len(places) == 320
    trips = sorted(one.round_trip_s(other) for one, other in combinations(places, 2))
    found = [trips[int(len(trips) * share)] for share in (0.05, 0.5, 0.95)]
    assert found == pytest.approx([0.016, 0.024, 0.039], abs=5e-4)


def test_choices_of_c_are_the_known_ones() -> None:
    """Surrogate 2 to 3; lower bound 8, now and then 3; upper bound 8; one disjoint chain suffices at c = 7."""
    places, wanted = anchors(), service()
    for seed in range(6):
        servers = topology(places, seed)
        chosen = {by: tune(wanted, servers, by) for by in ("lower", "upper", "surrogate")}  # type: ignore[arg-type]
        assert chosen["surrogate"] is not None
        assert chosen["surrogate"].c in (2, 3)
        assert chosen["lower"] is not None
        assert chosen["lower"].c in (3, 8)
        assert chosen["upper"] is not None
        assert chosen["upper"].c == 8
        assert plan(wanted, servers, C).disjoint_chains == 1
