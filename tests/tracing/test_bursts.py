"""Requests drawn in bursts: the mean rate is kept, and they are as bursty as was asked."""

from __future__ import annotations

from typing import Any

import pytest

from proto.types.errors import SlicewiseError
from simulator.requests import Asked
from simulator.scenario import scenario
from tests.simulating.scenarios import small


def drawn(seed: int = 1, **trace: Any) -> tuple[Asked, ...]:
    doc = small([(1, 3)], {"a": (1.0, 0.0, 0.1)}, seed=seed)
    return scenario(doc | {"requests": {"trace": {"rate_rps": 20, "duration_s": 2000, **trace}}}).requests


def dispersion(requests: tuple[Asked, ...], window_ns: int = 10**9) -> float:
    """Variance by mean of the arrivals a window: 1 for Poisson."""
    counts = [0] * (requests[-1].at_ns // window_ns + 1)
    for r in requests:
        counts[r.at_ns // window_ns] += 1
    mean = sum(counts) / len(counts)
    return sum((count - mean) ** 2 for count in counts) / len(counts) / mean


def test_the_mean_rate_stays_and_the_arrivals_crowd() -> None:
    plain, crowded = drawn(), drawn(bursts={"on_s": 2, "off_s": 8})
    assert len(plain) == pytest.approx(40_000, rel=0.05)
    assert len(crowded) == pytest.approx(40_000, rel=0.2)  # 200 bursts: their number and length vary
    assert dispersion(plain) == pytest.approx(1, abs=0.15)
    assert dispersion(crowded) > 20
    ordered = [r.at_ns for r in crowded]
    assert ordered == sorted(ordered)
    assert ordered[-1] < 2000e9


def test_quiet_is_not_silent_and_all_is_plain() -> None:
    silent, quiet = drawn(bursts={"on_s": 5, "off_s": 5}), drawn(bursts={"on_s": 5, "off_s": 5, "quiet": 0.5})
    even = drawn(bursts={"on_s": 5, "off_s": 5, "quiet": 1})
    assert dispersion(silent) > 2 * dispersion(quiet) > 2 * dispersion(even)
    assert len(even) == len(drawn())
    assert max(abs(a.at_ns - b.at_ns) for a, b in zip(even, drawn(), strict=True)) < 1000  # all but rounding
    silent_s = {r.at_ns // 10**9 for r in silent}
    assert len(silent_s) < 1500 < len({r.at_ns // 10**9 for r in quiet})


def test_the_seed_decides() -> None:
    shape = {"on_s": 1, "off_s": 1}
    assert drawn(bursts=shape) == drawn(bursts=shape)
    assert drawn(bursts=shape) != drawn(2, bursts=shape)


@pytest.mark.parametrize(
    ("shape", "field"),
    [
        ({}, "bursts.on_s"), ({"on_s": 1}, "bursts.off_s"), ({"on_s": 0, "off_s": 1}, "bursts.on_s"),
        ({"on_s": 1, "off_s": 1, "quiet": 2}, "bursts.quiet"), ({"on_s": 1, "off_s": 1, "loud": 2}, "bursts.loud"),
        (3, "bursts"),
    ],
)  # fmt: skip
def test_bad_bursts_are_named(shape: Any, field: str) -> None:
    with pytest.raises(SlicewiseError) as refused:
        drawn(bursts=shape)
    assert refused.value.message.startswith(f"requests.trace.{field}")


def test_bursts_without_end_are_refused() -> None:
    with pytest.raises(SlicewiseError, match=r"requests.trace.bursts"):
        drawn(rate_rps=1e-6, duration_s=1e9, bursts={"on_s": 0.001, "off_s": 0.001})
