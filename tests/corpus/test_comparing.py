"""The comparison that decides about every handler of the corpus can tell answers apart."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.corpus import cases
from tests.corpus.comparing import difference

RTOL = 1e-4


@pytest.mark.parametrize(
    ("found", "wanted"),
    [
        (b'{"a": [1, 2.00001]}', b'{"a": [1, 2.0]}'),
        (b'{"b": 1, "a": null}', b'{"a": null, "b": 1}'),
        (b"data: x\n\n", b"data: x\n\n"),
        (b"NaN", b"NaN"),
        (b"[]", b"[]"),
        (b"1e-9", b"0.0"),
    ],
)
def test_what_says_the_same_is_the_same(found: bytes, wanted: bytes) -> None:
    assert difference(found, wanted, RTOL) == ""


@pytest.mark.parametrize(
    ("found", "wanted"),
    [
        (b'{"a": 1}', b'{"a": 2}'),
        (b'{"a": 1}', b'{"a": 1.0}'),
        (b"1", b"true"),
        (b"[1.001]", b"[1.0]"),
        (b"[1]", b"[1, 1]"),
        (b'{"a": 1}', b'{"a": 1, "b": 1}'),
        (b'{"a": {"b": [0, "x"]}}', b'{"a": {"b": [0, "y"]}}'),
        (b"NaN", b"1.0"),
        (b"data: x\n\n", b"data: y\n\n"),
        (b"null", b"0"),
    ],
)
def test_what_differs_is_told(found: bytes, wanted: bytes) -> None:
    assert difference(found, wanted, RTOL)


def test_every_case_reads_and_says_what_it_stands_for() -> None:
    found = cases.read()
    assert len({case.name for case in found}) == len(found) >= 36
    assert all(case.covers and case.calls for case in found)


def test_a_misspelt_word_in_a_case_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / cases.CASE).write_text(json.dumps({"covers": "x", "calls": [{"bodi": 1}]}))
    monkeypatch.setattr(cases, "FUNCTIONS", tmp_path)
    with pytest.raises(ValueError, match=r"one/case\.json: bodi: no such word"):
        cases.read()
