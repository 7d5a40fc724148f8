"""Two implementations of the contract's section 3 give one document."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from proto.types.errors import SlicewiseError
from proto.wire.documents import read_document
from slicewise.commands.chain import make_plan, plan_document
from slicewise.planning.chain_file import parse_chain_file
from tests.chaining.reference import NoAdmissibleC, reference_plan

# Few values, so that ties, equal paths and sizes on whole numbers are common.
_SERVER = st.fixed_dictionaries(
    {
        "memory_gb": st.sampled_from([0.4, 1, 1.1, 2, 2.2, 3, 3.3, 5]),
        "comm_s": st.sampled_from([0.1, 0.2, 0.3, 1.0]),
        "block_s": st.sampled_from([0, 0.05, 0.1, 0.3, 1e-9]),
    }
)
_FILE = st.fixed_dictionaries(
    {
        "blocks": st.integers(1, 6),
        "block_gb": st.sampled_from([0.1, 0.3, 1, 1.0000000001]),
        "cache_gb": st.sampled_from([0.1, 0.15, 0.5]),
        "rate_rps": st.sampled_from([1e-6, 0.1, 0.3, 0.5, 1, 2.5, 10, 40]),
        "servers": st.lists(_SERVER, max_size=6),
    },
    optional={
        "max_load": st.sampled_from([0.1, 0.5, 1]),
        "c": st.one_of(st.just("auto"), st.integers(1, 40)),
        "tune_by": st.sampled_from(["lower", "upper", "surrogate"]),
        "version": st.just(1.0),
    },
)


@settings(max_examples=150, deadline=None)
@given(_FILE)
def test_a_plan_is_the_references(file: dict[str, Any]) -> None:
    file["servers"] = [{"id": f"s{index}", **server} for index, server in enumerate(file["servers"])]
    parsed = parse_chain_file(file)
    try:
        expected = reference_plan(file)
    except NoAdmissibleC:
        with pytest.raises(SlicewiseError, match=r"^rate_rps: "):
            make_plan(parsed)
        return
    made = make_plan(parsed)
    event(f"{len(made.chains)} chains, {'stable' if made.bounds else 'unstable'}, K {made.disjoint_chains}")
    assert_same(plan_document(parsed, made), expected)


def test_the_example_is_the_references_too() -> None:
    file = read_document(Path(__file__).parents[2] / "examples" / "plans" / "chain.yaml")
    parsed = parse_chain_file(file)
    made = make_plan(parsed)
    assert len(made.chains) == 4
    assert_same(plan_document(parsed, made), reference_plan({**file, "c": made.c}))


def assert_same(found: Any, expected: Any) -> None:
    """Equal, bounds and rates to within 1e-9: they are sums of doubles here and of fractions there."""
    if isinstance(expected, dict):
        assert found.keys() == expected.keys()
        for key, value in expected.items():
            assert_same(found[key], value)
    elif isinstance(expected, list):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert_same(one, other)
    elif isinstance(expected, float):
        assert found == pytest.approx(expected, rel=1e-9, abs=0)
    else:
        assert found == expected
