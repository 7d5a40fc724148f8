"""Documents that people write: JSON and YAML 1.2's core schema mean the same, and nothing is guessed."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proto.types.errors import SlicewiseError
from proto.wire import fields
from proto.wire.documents import parse_document, read_document


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-3", 0.001), (".5e3", 500.0), ("5.", 5.0), ("-.5", -0.5), ("+7", 7), ("010", 10), ("0o17", 15),
        ("no", "no"), ("yes", "yes"), ("on", "on"), ("1_000", "1_000"), ("0b1", "0b1"), ("1:30", "1:30"),
        ("2020-01-01", "2020-01-01"), ("=", "="), ("True", True), ("FALSE", False), ("~", None), ("null", None),
        (".inf", math.inf), ("-.INF", -math.inf), ("'1'", "1"), ('"1e-3"', "1e-3"), ("!!str 5", "5"),
        ("!!float 5", 5.0),
        ("0x1F", 31), ("nan", "nan"), ("inf", "inf"), ("", None),
    ],
)  # fmt: skip
def test_the_core_schema(text: str, value: Any) -> None:
    found = parse_document(text)
    assert found == value
    assert type(found) is type(value)
    if text:
        assert parse_document(f"a: {text}\nb: [{text}, 1]\n") == {"a": value, "b": [value, 1]}


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
        max_leaves=10,
    )
)
def test_json_is_what_json_is(value: Any) -> None:
    assert parse_document(json.dumps(value, indent="\t")) == value


def test_json_and_yaml_of_one_document() -> None:
    value = {"a": [1, 2.5, {"b": "x: y"}], "c": {"1": True}}
    assert parse_document(json.dumps(value)) == parse_document("a: [1, 2.5, {b: 'x: y'}]\nc: {'1': true}\n") == value
    assert parse_document("{a: 1, b: {1: 2}}") == {"a": 1, "b": {1: 2}}
    assert parse_document("a: &one {x: 1}\nb: *one\n") == {"a": {"x": 1}, "b": {"x": 1}}


@pytest.mark.parametrize(
    "text",
    [
        '{"1": 1, "1": 2}', "{'1': 1, 1: 2}", "1: a\n'1': b\n", "{1: a, 1.0: b}", "{true: a, 1: b}", "a: {b: 1, b: 1}",
        "a: [", "a: 1\n b: 2", "a: 1\n--- \nb: 2", "!thing 1", "!!int x", "? [1]\n: 2", "a: &x [*x]", "a: *none",
        "[" * 10_000, "a: " + "9" * 5000, "a:\n\t- 1", '{"a": 1,}x', "\x00",
    ],
    ids=lambda text: text[:20],
)  # fmt: skip
def test_what_cannot_be_read_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(SlicewiseError) as refused:
        parse_document(text)
    assert refused.value.code == "bad_request"
    assert "\n" not in refused.value.message


def test_a_mistake_in_a_file_is_told_with_its_place(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_text("a: 1\nb: [1\nc: 2\n")
    with pytest.raises(SlicewiseError, match=r"x\.yaml: line 3"):
        read_document(path)
    path.write_text("\ufeffa: 1\n")
    assert read_document(path) == {"a": 1}


def test_whole_keys() -> None:
    assert fields.whole_keys({"1": "a", 2: "b", "3.0": "c"}, "t", "things") == {1: "a", 2: "b", 3: "c"}
    for bad in ({}, [], {"x": 1}, {1.5: 1}, {True: 1}, {0: 1}, {"1": 1, "1.0": 2}, {None: 1}):
        with pytest.raises(SlicewiseError, match="t"):
            fields.whole_keys(bad, "t", "things")


def test_numbers_keep_what_they_are() -> None:
    assert fields.number(10**17 + 1, "n") == 10**17 + 1
    assert fields.nanoseconds(0.0000000005, "n") == 0  # half to even
    assert fields.nanoseconds(0.0000000015, "n") == 2
    with pytest.raises(SlicewiseError, match="at least 0 and at most 1"):
        fields.number(1.5, "n", least=0, most=1)
