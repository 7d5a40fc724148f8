"""What counts as the same answer, and how the first difference is told."""

from __future__ import annotations

import pytest

from slicewise.checking.comparing import difference
from slicewise.checking.request import Answer


def told(local: bytes, platform: bytes) -> str:
    return difference(Answer(200, local, 0.0), Answer(200, platform, 0.0))


@pytest.mark.parametrize(
    ("local", "platform"),
    [
        (b'{"a": [1, 2.0]}', b'{"a":[1,2.0]}'),
        (b"[1.0, 1000.0]", b"[1.00001, 1000.09]"),
        (b"[0.0]", b"[0.000009]"),
        (b'{"a": 1, "b": 2}', b'{"b": 2, "a": 1}'),
        (b"[1]", b"[1.0]"),
        (b"\xff\x00", b"\xff\x00"),
        (b'"NaN"', b'"NaN"'),
    ],
)
def test_numbers_may_differ_a_little_and_spelling_does_not_matter(local: bytes, platform: bytes) -> None:
    assert told(local, platform) == ""


@pytest.mark.parametrize(
    ("local", "platform", "where"),
    [
        (b"[1.0, 1000.0]", b"[1.0, 1000.2]", "$[1]: 1000.0 locally, 1000.2 on the platform"),
        (b"[30000]", b"[30001]", "$[0]: 30000 locally, 30001 on the platform"),
        (b"[0.0]", b"[0.00002]", "$[0]"),
        (b'{"a": {"b": "x"}}', b'{"a": {"b": "y"}}', '$.a.b: "x" locally, "y" on the platform'),
        (b'{"a": 1}', b"{}", "$.a: only locally"),
        (b"{}", b'{"a": 1}', "$.a: only on the platform"),
        (b"[1, 2]", b"[1]", "$: 2 items locally, 1 on the platform"),
        (b"[true]", b"[1]", "$[0]: true locally, 1 on the platform"),
        (b"abcdef", b"abcxef", "byte 3 (of 6 and 6)"),
        (b"abc", b"abcd", "byte 3 (of 3 and 4)"),
    ],
)
def test_the_first_difference_is_named(local: bytes, platform: bytes, where: str) -> None:
    assert told(local, platform).startswith(where)


def test_another_status_is_a_difference_whatever_the_body() -> None:
    assert difference(Answer(200, b"x", 0.0), Answer(500, b"x", 0.0)).startswith("status: 200 locally, 500")
