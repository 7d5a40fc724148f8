"""Files of partition plans for tests: the contract's example, and random ones."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import strategies as st

from tests.partitioning import naive

_EXAMPLE: dict[str, Any] = {
    "version": 1,
    "gpu": "A100-40GB",
    "gpus": 4,
    "gpcs": 24,
    "utilisation_knee": 0.8,
    "batches": {"1": 0.2, "2": 0.2, "3": 0.4, "4": 0.2},
    "kinds": {
        "1": {
            "utilisation": {"1": 0.5, "2": 0.85, "3": 0.9, "4": 0.95},
            "throughput_rps": {"1": 40, "2": 20, "3": 12, "4": 9},
        },
        "7": {
            "utilisation": {"1": 0.1, "2": 0.3, "3": 0.5, "4": 0.6},
            "throughput_rps": {"1": 60, "2": 45, "3": 30, "4": 20},
        },
    },
}


def example() -> dict[str, Any]:
    """The contract's example."""
    return copy.deepcopy(_EXAMPLE)


@st.composite
def documents(draw: st.DrawFn) -> dict[str, Any]:
    """Valid files of every sort: keys quoted or not, optional ones left out, curves that go beyond what is needed."""
    gpus = draw(st.integers(1, 4))
    document: dict[str, Any] = {"gpu": draw(st.sampled_from(sorted(naive.NAMES))), "gpus": gpus}
    if draw(st.booleans()):
        document["gpcs"] = draw(st.integers(1, 7 * gpus))
    if draw(st.booleans()):
        document["utilisation_knee"] = draw(st.sampled_from([0, 0.3, 0.5, 0.8, 0.9, 1]))
    largest = draw(st.integers(1, 8))
    if draw(st.integers(0, 3)):
        weights = draw(st.lists(st.integers(0, 20), min_size=largest, max_size=largest).filter(any))
        pdf = {batch: weight / sum(weights) for batch, weight in enumerate(weights, 1)}
        document["batches"] = {_key(draw, b): p for b, p in pdf.items() if p or b == largest or draw(st.booleans())}
    else:
        sigma, median = draw(st.floats(0.2, 2)), draw(st.floats(0.5, 9))
        document["batches"] = {"lognormal": {"median": median, "sigma": sigma, "max": largest}}
    sizes = draw(st.lists(st.sampled_from(naive.SIZES), min_size=1, unique=True))
    document["kinds"] = {_key(draw, size): draw(_curves(largest)) for size in sizes}
    return document


@st.composite
def _curves(draw: st.DrawFn, largest: int) -> dict[str, Any]:
    def curve(values: st.SearchStrategy[float]) -> dict[Any, float]:
        return {_key(draw, batch): draw(values) for batch in range(1, largest + draw(st.integers(1, 3)))}

    steps = st.sampled_from([0, 0.25, 0.5, 0.79, 0.8, 0.81, 0.95, 1])
    return {
        "utilisation": curve(steps | st.floats(0, 1)),
        "throughput_rps": curve(st.integers(1, 200) | st.floats(0.1, 1e4)),
    }


def _key(draw: st.DrawFn, number: int) -> Any:
    return draw(st.sampled_from([number, str(number), float(number)]))
