"""Bodies and numbers of every kind go through a model and come back as they are, or are refused by name."""

from __future__ import annotations

import hashlib
import json
import math
import socket
import struct
import urllib.parse

import pytest

from tests.platform_functions import HANG_S
from tests.platform_rig import Platform

pytestmark = [pytest.mark.live, pytest.mark.timeout(180)]

EVERY_BYTE = bytes(range(256))


@pytest.mark.parametrize(
    "body", [b"", b"\0", EVERY_BYTE, EVERY_BYTE * 204_800], ids=["empty", "nul", "every byte", "50 MiB"]
)
@pytest.mark.parametrize("name", ["numbers", "numbers-cpu"])
def test_a_body_of_any_size_arrives_whole(numbers: Platform, name: str, body: bytes) -> None:
    reply = numbers.call(f"{name}/whole", body)
    assert reply.status == 200, reply.text
    assert reply.json() == {"bytes": len(body), "sha256": hashlib.sha256(body).hexdigest()}


@pytest.mark.parametrize("name", ["numbers", "numbers-cpu"])
def test_a_body_cut_in_the_middle_leaves_nothing_behind(numbers: Platform, name: str) -> None:
    host, port = urllib.parse.urlsplit(numbers.url).netloc.split(":")
    head = f"POST /function/{name}/whole HTTP/1.1\r\nHost: x\r\nContent-Length: 3000000\r\n\r\n".encode()
    for sent in (b"", b"x" * 500, b"x" * 2_000_000):
        with socket.create_connection((host, int(port)), timeout=HANG_S) as client:
            client.sendall(head + sent)
    numbers.wait(lambda: _in_flight(numbers, name) == 0, "the cut calls are still counted")
    assert not list((numbers.state_dir / "gateway" / "spool").glob("*"))
    assert numbers.call(f"{name}/whole", b"whole").json()["bytes"] == 5


def _in_flight(platform: Platform, name: str) -> float:
    from tests.platform_functions import scrape

    label = f'{{function_name="{name}.openfaas-fn"}}'
    return scrape(platform)[f"gateway_invocation_function_invocation_inflight{label}"]


@pytest.mark.parametrize("name", ["numbers", "numbers-cpu"])
def test_nan_and_infinities_are_strings_in_json(numbers: Platform, name: str) -> None:
    reply = numbers.call(f"{name}/numbers", b'[["NaN", "Infinity"], ["-Infinity", "1.5"]]')
    assert reply.status == 200, reply.text
    assert json.loads(reply.text, parse_constant=pytest.fail) == {"numbers": [["NaN", "Infinity"], ["-Infinity", 1.5]]}


@pytest.mark.parametrize(
    ("dtype", "body"),
    [
        ("float32", struct.pack("<5f", math.nan, math.inf, -math.inf, -0.0, 1e-45)),
        ("float64", struct.pack("<4d", math.nan, math.inf, -math.inf, 5e-324)),
        ("float16", struct.pack("<4e", math.nan, math.inf, -math.inf, 65504.0)),
        # NaN, both infinities, 1.5, the largest and the smallest there is
        ("bfloat16", struct.pack("<6H", 0x7FC0, 0x7F80, 0xFF80, 0x3FC0, 0x7F7F, 0x0001)),
        ("int64", struct.pack("<3q", -(2**63), 2**63 - 1, 0)),
        ("bool", b"\x00\x01\x01"),
    ],
)
def test_tensors_carry_their_values_as_they_are(numbers: Platform, dtype: str, body: bytes) -> None:
    reply = numbers.call(f"numbers/raw?dtype={dtype}", body)
    assert reply.status == 200, reply.text
    assert reply.body == body
    assert reply.headers["content-type"] == "application/octet-stream"


def test_a_batch_without_rows_comes_back_as_one(numbers: Platform) -> None:
    reply = numbers.call("numbers/empty")
    assert reply.status == 200, reply.text
    assert reply.json() == {"shape": [0, 3], "dtype": "torch.float32", "rows": []}


@pytest.mark.parametrize(
    ("header", "value"),
    [
        ("X-Slicewise-Batch", "0"),
        ("X-Slicewise-Batch", "many"),
        ("X-Slicewise-Batch", "-1"),
        ("X-Slicewise-Sla", "soon"),
    ],
)
def test_a_batch_or_an_sla_that_is_none_is_refused_by_name(numbers: Platform, header: str, value: str) -> None:
    reply = numbers.call("numbers/empty", b"", {header: value})
    assert reply.status == 400
    assert header in reply.text
    assert value in reply.text


@pytest.mark.parametrize("name", ["numbers", "numbers-cpu"])
def test_headers_of_32_kib_pass_both_ways(numbers: Platform, name: str) -> None:
    value = "".join(chr(33 + number % 90) for number in range(32 * 1024))
    reply = numbers.call(f"{name}/headers", b"", {"X-Large": value})
    assert (reply.status, reply.text) == (200, str(len(value)))
    assert reply.headers["x-large-back"] == value[::-1]


def test_headers_beyond_the_limit_are_refused_and_nothing_hangs(numbers: Platform) -> None:
    reply = numbers.call("numbers/headers", b"", {"X-Large": "x" * (2 << 20)})
    assert reply.status in (400, 431)
    assert numbers.call("numbers/headers", b"", {"X-Large": "x"}).status == 200
