"""The command's document and that of a second simulator, written from the contract alone, are the same."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings

from simulator.engine import Engine
from simulator.scenario import EQUAL_BYTES, policy_of, scenario
from tests.simulating.reference import Reference
from tests.simulating.scenarios import documents, run


@given(documents())
@settings(max_examples=300, deadline=None)
def test_two_simulators_agree(doc: dict[str, Any]) -> None:
    ours, theirs = run(doc), Reference(doc).run()
    assert ours["policy"] == theirs["policy"]
    assert ours["requests"] == theirs["requests"]
    assert list(ours["summary"]) == list(theirs["summary"])
    for key, value in theirs["summary"].items():
        near = value if value is None else pytest.approx(value, rel=1e-10, abs=1e-12)
        assert ours["summary"][key] == near, key


@given(documents())
@settings(max_examples=100, deadline=None)
def test_what_holds_at_every_moment(doc: dict[str, Any]) -> None:
    given_ = scenario(doc)
    engine = Engine(given_, policy_of(given_.policy))
    more = True
    while more:
        more = engine.step()
        for g, known in zip(engine.slices.values(), engine.core.state.slices, strict=True):
            assert g.free_bytes >= -EQUAL_BYTES
            assert g.held == list(known.held)  # what the scheduler foresees is what the slice does
            assert len(g.waiting) == len(known.waiting)
            assert (g.running is None) == (known.running is None)
            assert g.running is not None or not g.waiting
    assert engine.core.waiting == 0
    assert not engine.core.ledger.bound
    works = engine.run().works
    assert len(works) == len(doc["requests"])
    for r, work in zip(given_.requests, works, strict=True):
        assert r.at_ns <= work.start_ns <= work.finish_ns
    for g in engine.slices:
        spans = sorted((w.start_ns, w.finish_ns) for w in works if w.bind.slice == g)
        assert all(before[1] <= after[0] for before, after in pairwise(spans))


@given(documents())
@settings(max_examples=25, deadline=None)
def test_the_same_input_gives_the_same_document(doc: dict[str, Any]) -> None:
    assert run(doc) == run(doc)
