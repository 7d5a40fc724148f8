"""Names, durations, status documents, where replicas go."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.core import deployment, durations, log_query, names, records, spreading, status
from gateway.core.names import Namespaces
from gateway.core.status import ReplicaFacts
from proto.types.errors import SlicewiseError
from proto.types.identity import FunctionKey


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        ("60", 60 * 10**9),
        ("0", 0),
        ("1m5s", 65 * 10**9),
        ("500ms", 5 * 10**8),
        ("1.5h", 5400 * 10**9),
        (".5s", 5 * 10**8),
        ("1us", 1000),
        ("1µs", 1000),
        ("0.0000000005s", 0),
        ("0.0000000015s", 2),
    ],
)
def test_durations_read_as_in_go(text: str, nanoseconds: int) -> None:
    assert durations.parse_ns(text) == nanoseconds


@pytest.mark.parametrize("text", ["", " ", "1", "s", "1x", "1s2", "-1s", "1 s", "١s", "1e3s", "9999999h"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    if text == "1":
        assert durations.parse_ns(text) == 10**9
        return
    with pytest.raises(ValueError, match="duration"):
        durations.parse_ns(text)


@given(st.integers(0, 10**6), st.integers(0, 59), st.integers(0, 999))
def test_parts_of_a_duration_add_up(minutes: int, seconds: int, milliseconds: int) -> None:
    expected = (minutes * 60 + seconds) * 10**9 + milliseconds * 10**6
    assert durations.parse_ns(f"{minutes}m{seconds}s{milliseconds}ms") == expected


def test_openfaas_fn_always_means_the_default_namespace() -> None:
    here = Namespaces("functions", ("functions", "staging"))
    assert here.function("f") == FunctionKey("functions", "f")
    assert here.function("f.openfaas-fn") == FunctionKey("functions", "f")
    assert here.function("f.staging") == FunctionKey("staging", "f")
    assert here.resolve(None) == here.resolve("") == here.resolve("openfaas-fn") == "functions"
    for wrong in ("kube-system", "nowhere"):
        with pytest.raises(SlicewiseError) as caught:
            here.resolve(wrong)
        assert caught.value.status == 400


def test_secret_names_are_dns_subdomains() -> None:
    assert all(names.is_secret_name(name) for name in ("a", "a-b", "a.b", "1"))
    assert not any(names.is_secret_name(name) for name in ("", "A", "a_b", ".a", "a.", "a..b", "a/b", "x" * 254, "a\n"))


def record(**fields: object) -> records.FunctionRecord:
    body = {"service": "f", "image": "i", **fields}
    accepted = deployment.parse(body, Namespaces())
    return records.FunctionRecord(accepted, "r", 1, 2, 1, False, 0, "2026-01-01T00:00:00Z", "d")


def test_a_status_has_none_of_the_traps_of_real_clients() -> None:
    plain = status.render(record(), [])
    assert not {"envVars", "requests", "limits", "availableReplicas", "usage"} & plain.keys()
    assert plain["labels"] == {"faas_function": "f"}
    assert plain["replicas"] == 2
    assert plain["createdAt"].endswith("Z")
    assert "replicas" not in status.render(record().scaled(0), [])
    full = status.render(record(limits={"memory": "5Mi", "cpu": "100m"}, readOnlyRootFilesystem=True), [])
    assert full["limits"] == {"memory": "5Mi", "cpu": "100m"}
    assert full["readOnlyRootFilesystem"] is True


def test_describe_says_that_the_version_before_still_answers() -> None:
    updated = replace(record(), generation=2)
    before = ReplicaFacts("a", "x:1", "ready", 1)
    failed = ReplicaFacts("b", "x:2", "failed", 2, why="ImportError: nothing")
    why = status.render(updated, [before, failed])["annotations"]["com.slicewise.why"]
    assert why == "The version before this one still answers. ImportError: nothing"
    after = ReplicaFacts("b", "x:2", "ready", 2)
    assert "com.slicewise.why" not in status.render(updated, [before, after])["annotations"]


def test_describe_says_what_is_wrong_with_a_replica_that_serves() -> None:
    facts = [
        ReplicaFacts("a", "x:1", "ready", 1, why="its runtime has not said hello", restarts=2),
        ReplicaFacts("b", "x:2", "ready", 1),
    ]
    assert status.render(record(), facts)["annotations"]["com.slicewise.why"] == "its runtime has not said hello"
    facts.append(ReplicaFacts("c", "x:3", "failed", 1, why="ImportError: nothing"))
    assert status.render(record(), facts)["annotations"]["com.slicewise.why"] == "ImportError: nothing"


def test_describe_says_that_a_function_opted_out_of_slices() -> None:
    annotations = status.render(replace(record(), gpu=False, opted_out=True), [])["annotations"]
    assert annotations == {"com.slicewise.gpu": "true", "com.slicewise.interpose": "false"}
    assert "com.slicewise.interpose" not in status.render(record(), [])["annotations"]


def test_describe_says_how_many_are_ready_and_why_others_are_not() -> None:
    facts = [
        ReplicaFacts("a", "x:1", "ready", 1, cpu_millicores=5, memory_bytes=10),
        ReplicaFacts("b", "x:2", "failed", 1, why="ImportError: nothing", restarts=3),
    ]
    document = status.render(record(), facts, with_usage=True)
    assert document["availableReplicas"] == 1
    assert document["usage"] == {"cpu": 5, "totalMemoryBytes": 10.0}
    assert "ImportError: nothing" in document["annotations"]["com.slicewise.why"]


@given(
    st.integers(0, 20),
    st.integers(1, 5),
    st.data(),
)
def test_replicas_are_spread_and_those_that_run_stay(replicas: int, count: int, data: st.DataObject) -> None:
    hosts = [f"h{index}" for index in range(count)]
    running = {host: data.draw(st.integers(0, 6)) for host in hosts}
    load = {host: data.draw(st.integers(0, 6)) for host in hosts}
    share = spreading.spread(replicas, [], hosts, running, load)
    assert sum(share.values()) == replicas
    assert all(count > 0 for count in share.values())
    if sum(running.values()) <= replicas:
        assert all(share.get(host, 0) >= running[host] for host in hosts)
    else:
        assert all(share.get(host, 0) <= running[host] for host in hosts)
    assert share == spreading.spread(replicas, [], hosts, running, load)


def test_a_constraint_names_the_node() -> None:
    assert spreading.spread(2, ["node=b"], ["a", "b"], {}, {"b": 9}) == {"b": 2}
    assert spreading.spread(2, ["node == b"], ["a", "b"], {"a": 2}, {}) == {"b": 2}
    assert spreading.spread(1, ["zone=x"], ["a", "b"], {}, {"a": 1}) == {"b": 1}
    with pytest.raises(SlicewiseError, match="constraints") as caught:
        spreading.spread(1, ["node=c"], ["a", "b"], {}, {})
    assert caught.value.status == 400


def test_log_requests_read_as_faas_cli_sends_them() -> None:
    now = 10**18
    asked = log_query.parse("name=f&tail=-1&follow=true&since=2026-01-01T00:00:00%2B01:00", now)
    assert (asked.name, asked.tail, asked.follow) == ("f", 0, True)
    assert asked.since_unix_ns == 1767222000 * 10**9
    assert log_query.parse("name=f", now).since_unix_ns == now - 300 * 10**9
    assert log_query.parse("name=f&tail=-1", now).since_unix_ns == 0
    assert log_query.parse("name=a&name=b&follow=maybe", now).name == "b"
    for query, wanted in [("name=f&tail=x", 422), ("name=f&since=yesterday", 422), ("tail=1", 400)]:
        with pytest.raises(SlicewiseError) as caught:
            log_query.parse(query, now)
        assert caught.value.status == wanted
