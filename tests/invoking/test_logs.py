"""Logs as faas-cli follows them: headers at once, one line of JSON a write."""

from __future__ import annotations

import base64
import json
import time

import pytest

from proto.wire.generated import slicewise_pb2 as pb
from tests.gateway_rig.rig import Rig

pytestmark = pytest.mark.live
AUTH = {"Authorization": "Basic " + base64.b64encode(b"admin:correct horse").decode()}


def line(name: str, text: str) -> pb.LogLine:
    return pb.LogLine(name=name, namespace="openfaas-fn", instance=f"{name}-1", unix_ns=time.time_ns(), text=text)


def test_lines_have_what_faas_cli_prints(rig: Rig) -> None:
    rig.deploy("talker")
    for text in ("one", "two", "three"):
        rig.host.write_line(line("talker", text))
    reply = rig.ask("GET", "/system/logs?name=talker&tail=2&follow=false", headers=AUTH)
    assert reply.headers["content-type"] == "application/x-ndjson"
    lines = [json.loads(text) for text in reply.text.splitlines()]
    assert [item["text"] for item in lines] == ["two", "three"]
    assert {"name", "namespace", "instance", "timestamp", "text"} == lines[0].keys()
    assert lines[0]["timestamp"].endswith("Z")


def test_a_followed_log_shows_that_it_is_connected_before_there_is_a_line(rig: Rig) -> None:
    rig.deploy("silent")
    connection = rig.connection()
    connection.request("GET", "/system/logs?name=silent&follow=true&tail=-1", headers=AUTH)
    answer = connection.getresponse()
    assert answer.status == 200
    rig.host.write_line(line("silent", "first"))
    assert json.loads(answer.readline())["text"] == "first"
    rig.host.write_line(line("silent", "second"))
    assert json.loads(answer.readline())["text"] == "second"
    connection.close()


def test_bad_log_requests(rig: Rig) -> None:
    rig.deploy("asked")
    for query, status in [
        ("name=absent", 404),
        ("", 400),
        ("name=asked&tail=x", 422),
        ("name=asked&since=never", 422),
        ("name=asked&namespace=nowhere", 400),
    ]:
        assert rig.ask("GET", f"/system/logs?{query}", headers=AUTH).status == status, query
    assert rig.ask("POST", "/system/logs?name=asked", headers=AUTH).status == 405
