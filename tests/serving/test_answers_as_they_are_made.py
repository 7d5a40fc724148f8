"""Streams reach the client chunk by chunk through gateway, broker and function."""

from __future__ import annotations

import http.client
import urllib.parse
from collections.abc import Iterator

import pytest

from tests.platform_functions import HANG_S, Gates, deploy, remove
from tests.platform_rig import Platform

pytestmark = [pytest.mark.live, pytest.mark.timeout(180)]


@pytest.fixture(scope="module")
def streaming(built: Platform) -> Iterator[Platform]:
    deploy(built, "stream", "serving-stream", gpu=True)
    yield built
    remove(built, "stream")


@pytest.mark.parametrize(
    ("path", "kind", "first", "rest"),
    [
        ("/sse", "text/event-stream", b"data: first\n\n", b"data: last\n\n"),
        ("/ndjson", "application/x-ndjson", b'{"row": [2.0, 4.0]}\n', b'{"row": [6.0, 8.0]}\n'),
        ("/chunks", None, bytes(range(256)), b"end"),
    ],
)
def test_the_first_chunk_is_read_before_the_last_is_made(
    streaming: Platform, gate: Gates, path: str, kind: str | None, first: bytes, rest: bytes
) -> None:
    query = urllib.parse.urlencode({"until": gate.path("until")})
    connection = http.client.HTTPConnection(urllib.parse.urlsplit(streaming.url).netloc, timeout=HANG_S)
    try:
        connection.request("GET", f"/function/stream{path}?{query}")
        answer = connection.getresponse()
        assert answer.status == 200
        assert answer.getheader("Transfer-Encoding") == "chunked"
        if kind is not None:
            assert answer.getheader("Content-Type") == kind
        assert answer.read(len(first)) == first
        gate.open("until")
        assert answer.read() == rest
    finally:
        connection.close()
