"""What a handler returns, and what the caller gets: through the real template, broker and host."""

from __future__ import annotations

import asyncio
import json

import pytest

from tests.function_rig.rig import HostRig

pytestmark = [pytest.mark.live, pytest.mark.asyncio(loop_scope="module")]

KINDS = """
    import datetime

    def handle(event, context):
        kind = event.path.strip("/")
        if kind == "bytes": return bytes(range(256))
        if kind == "echo": return event.body
        if kind == "list": return [1, "a", None]
        if kind == "dict": return {"a": [1, 2]}
        if kind == "nan": return {"body": [float("nan"), float("inf"), float("-inf"), {"x": float("nan")}]}
        if kind == "none": return None
        if kind == "text": return "grüße"
        if kind == "tuple": return {"made": True}, 201, {"X-Made": "yes"}
        if kind == "envelope":
            return {"statusCode": 418, "body": "short and stout", "headers": [("X-A", "1"), ("X-A", "2")]}
        if kind == "bad": return {"body": object()}
        if kind == "time": return {"body": {"at": datetime.date(2026, 11, 30)}}
        if kind == "event":
            return {
                "method": event.method, "query": dict(event.query), "tags": event.query.getlist("tag"),
                "header": event.headers["x-thing"], "kind": type(event.body).__name__, "host": context.hostname,
            }
        if kind == "empty": return {"statusCode": 204}
        if kind == "redirect": return {"statusCode": 302, "headers": {"Location": "/elsewhere"}}
        if kind == "headers":
            return {"body": event.headers.get("X-Big", ""), "headers": {"X-Big": event.headers["X-Big"]}}
        raise KeyError(kind)
"""


@pytest.fixture(scope="module")
def url(host: HostRig, request: pytest.FixtureRequest) -> list[str]:
    return []


async def _url(host: HostRig, url: list[str]) -> str:
    if not url:
        url.append(await host.deploy("kinds", KINDS))
    return url[0]


async def test_bytes_stay_bytes(host: HostRig, url: list[str]) -> None:
    base = await _url(host, url)
    status, body, headers = await host.call(f"{base}/bytes")
    assert (status, body) == (200, bytes(range(256)))
    assert headers["Content-Type"] == "application/octet-stream"
    assert (await host.call(f"{base}/echo", bytes(range(256)) * 3))[1] == bytes(range(256)) * 3


async def test_lists_and_dicts_become_json(host: HostRig, url: list[str]) -> None:
    base = await _url(host, url)
    _, body, headers = await host.call(f"{base}/list")
    assert json.loads(body) == [1, "a", None]
    assert headers["Content-Type"] == "application/json"
    assert json.loads((await host.call(f"{base}/dict"))[1]) == {"a": [1, 2]}
    assert json.loads((await host.call(f"{base}/time"))[1]) == {"at": "2026-11-30"}


async def test_nan_and_infinities_are_strings_in_json(host: HostRig, url: list[str]) -> None:
    _, body, _ = await host.call(f"{await _url(host, url)}/nan")
    assert json.loads(body) == ["NaN", "Infinity", "-Infinity", {"x": "NaN"}]


async def test_status_headers_and_nothing(host: HostRig, url: list[str]) -> None:
    base = await _url(host, url)
    assert (await host.call(f"{base}/none"))[:2] == (200, b"")
    status, body, headers = await host.call(f"{base}/tuple")
    assert (status, json.loads(body), headers["X-Made"]) == (201, {"made": True}, "yes")
    status, body, headers = await host.call(f"{base}/envelope")
    assert (status, body, headers.getall("X-A")) == (418, b"short and stout", ["1", "2"])
    assert (await host.call(f"{base}/empty"))[:2] == (204, b"")
    assert (await host.call(f"{base}/text"))[1].decode() == "grüße"
    status, _, headers = await host.call(f"{base}/redirect", allow_redirects=False)
    assert (status, headers["Location"]) == (302, "/elsewhere")


async def test_head_has_headers_and_no_body(host: HostRig, url: list[str]) -> None:
    base = await _url(host, url)
    for _ in range(3):  # the connections behind it stay usable
        status, body, headers = await host.call(f"{base}/text", method="HEAD")
        assert (status, body, headers["Content-Length"]) == (200, b"", "7")
    assert (await host.call(f"{base}/text"))[0] == 200


async def test_the_event_says_what_was_asked(host: HostRig, url: list[str]) -> None:
    base = await _url(host, url)
    _, body, _ = await host.call(f"{base}/event?tag=a&tag=b&q=%C3%BC", b"x", method="PUT", headers={"X-Thing": "yes"})
    said = json.loads(body)
    assert said["method"] == "PUT"
    assert said["query"] == {"tag": "a", "q": "ü"}
    assert said["tags"] == ["a", "b"]
    assert said["header"] == "yes"
    assert said["kind"] == "bytes"


async def test_large_headers_pass_both_ways(host: HostRig, url: list[str]) -> None:
    big = "x" * 32 * 1024
    assert host.http is not None
    base = (await _url(host, url)).removeprefix("http://")
    name, port = base.split(":")
    reader, writer = await asyncio.open_connection(name, int(port), limit=1 << 20)
    writer.write(f"GET /headers HTTP/1.1\r\nHost: x\r\nX-Big: {big}\r\nConnection: close\r\n\r\n".encode())
    answer = await reader.read()
    writer.close()
    assert answer.startswith(b"HTTP/1.1 200")
    assert f"x-big: {big}".encode() in answer
    assert answer.endswith(big.encode())


async def test_a_handler_that_raises_is_a_500_without_its_traceback(host: HostRig, url: list[str]) -> None:
    base = await _url(host, url)
    status, body, _ = await host.call(f"{base}/no-such-kind")
    assert status == 500
    assert b"KeyError" not in body
    assert b"Traceback" not in body
    status, _, _ = await host.call(f"{base}/bad")
    assert status == 500
    texts = [line.text for line in await host.logs("kinds", tail=-1)]
    assert any("KeyError: 'no-such-kind'" in text for text in texts)
    assert any("cannot be written as JSON" in text for text in texts)


async def test_flask_template_signature(host: HostRig) -> None:
    from functions.service import bundles

    source = host.folder / "flask"
    source.mkdir()
    (source / "handler.py").write_text(
        "def handle(req):\n    return req.upper(), 202, {'X-Kind': type(req).__name__}\n"
    )
    bundles.build(source, "flasky", host.images, template="python3-flask")
    await host.apply("flasky")
    replica = (await host.ready("flasky"))[0]
    status, body, headers = await host.call(f"http://{replica.address}/", b"abc")
    assert (status, body, headers["X-Kind"]) == (202, b"ABC", "str")


async def test_openfaas_layout_with_package_imports(host: HostRig) -> None:
    files = {
        "handler.py": "from .words import word\nfrom function.words import word as same\n"
        "def handle(event, context):\n    return word if word is same else 'two modules'\n",
        "words.py": "word = 'one'\n",
    }
    url = await host.deploy("package", files)
    assert (await host.call(url))[1] == b"one"


async def test_the_platforms_modules_are_not_in_the_users_way(host: HostRig) -> None:
    files = {
        "handler.py": """
            import os, sys
            import proto, gateway
            import multiprocessing
            def handle(event, context):
                ours = [name for name in sys.modules if name.startswith(("functions.", "proto."))]
                return [proto.mine, gateway.mine, ours, sys.modules["__main__"].__name__, os.getcwd() == sys.path[0]]
        """,
        "proto.py": "mine = 'proto'\n",
        "gateway.py": "mine = 'gateway'\n",
    }
    url = await host.deploy("names", files)
    assert json.loads((await host.call(url))[1]) == ["proto", "gateway", [], "__main__", True]
