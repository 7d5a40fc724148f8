"""What goes on to a function and what comes back, and when a call is bound early."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.core import forwarding, invocation
from gateway.core.binding_choice import SHORT_GAP_NS, binds_early
from gateway.core.choosing import choose
from gateway.core.failing import answer
from gateway.core.invocation import Phase
from proto.types.errors import STATUS, SlicewiseError


def sent(*headers: tuple[bytes, bytes]) -> dict[bytes, bytes]:
    return dict(forwarding.to_function(list(headers), b"id", b"1", b"10.0.0.1", b"http"))


def test_hop_by_hop_headers_end_here_and_so_do_those_that_connection_names() -> None:
    seen = sent((b"x-mine", b"1"), (b"connection", b"close, X-Mine"), (b"te", b"trailers"), (b"accept", b"*/*"))
    assert b"x-mine" not in seen
    assert b"connection" not in seen
    assert b"te" not in seen
    assert seen[b"accept"] == b"*/*"


def test_a_client_cannot_speak_for_the_platform() -> None:
    names = (b"x-slicewise-binding", b"x-slicewise-call", b"x-slicewise-queued", b"x-slicewise-deadline")
    assert not set(names) & sent(*((name, b"forged") for name in names)).keys()
    assert sent((b"x-slicewise-batch", b"4"))[b"x-slicewise-batch"] == b"4"


def test_forwarded_headers_are_added_only_when_absent() -> None:
    seen = sent((b"host", b"example"))
    assert (seen[b"x-forwarded-host"], seen[b"x-forwarded-for"]) == (b"example", b"10.0.0.1")
    seen = sent((b"host", b"example"), (b"x-forwarded-for", b"1.2.3.4"), (b"x-forwarded-host", b"proxy"))
    assert (seen[b"x-forwarded-host"], seen[b"x-forwarded-for"]) == (b"proxy", b"1.2.3.4")


def test_an_answer_without_a_type_gets_the_requests_type() -> None:
    assert (b"content-type", b"image/png") in forwarding.to_client([], [], b"image/png", 200)
    assert (b"content-type", b"text/plain; charset=utf-8") in forwarding.to_client([], [], b"", 200)
    assert forwarding.to_client([(b"content-type", b"a/b")], [], b"x/y", 200) == [(b"content-type", b"a/b")]
    assert forwarding.to_client([], [], b"x/y", 204) == []


def test_repeated_answer_headers_all_come_back() -> None:
    cookies = [(b"set-cookie", b"a=1"), (b"set-cookie", b"b=2")]
    assert [pair for pair in forwarding.to_client(cookies, [], b"", 200) if pair in cookies] == cookies


@pytest.mark.parametrize(
    ("raw", "segment", "path"),
    [
        (b"/function/f", "f", b"/"),
        (b"/function/f/", "f", b"/"),
        (b"/function/f.ns/a/b", "f.ns", b"/a/b"),
        (b"/function/f//a%2Fb/", "f", b"//a%2Fb/"),
    ],
)
def test_the_name_is_stripped_and_the_rest_is_not_touched(raw: bytes, segment: str, path: bytes) -> None:
    assert forwarding.split_path(raw) == (segment, path)


def test_call_ids_are_kept_when_they_can_be() -> None:
    assert invocation.call_id(b"theirs", "ours") == "theirs"
    for wrong in (b"", b"a b", b"a\tb", b"\xff", b"x" * 201):
        assert invocation.call_id(wrong, "ours") == "ours"


def test_bad_batch_and_sla_headers_are_400() -> None:
    assert invocation.batch(b"") == 0
    assert invocation.batch(b"8") == 8
    assert invocation.sla_ns(b"", 7) == 7
    assert invocation.sla_ns(b"1.5s", 7) == 1_500_000_000
    for wrong in (b"0", b"-1", b"x", b"1.5", b"99999999999999"):
        with pytest.raises(SlicewiseError) as caught:
            invocation.batch(wrong)
        assert caught.value.status == 400
    for wrong in (b"0s", b"soon", b"-1s"):
        with pytest.raises(SlicewiseError) as caught:
            invocation.sla_ns(wrong, 0)
        assert caught.value.status == 400


@dataclass
class Hint:
    gap_ns: int = 0
    load_ns: int = 0
    known: bool = True
    policy_needs_batch: bool = False


def test_a_call_is_bound_early_only_where_its_first_model_call_comes_soon() -> None:
    assert not binds_early(None, 0)[0]
    assert not binds_early(Hint(known=False), 0)[0]
    assert binds_early(Hint(gap_ns=SHORT_GAP_NS), 0)[0]
    assert not binds_early(Hint(gap_ns=SHORT_GAP_NS + 1), 0)[0]
    assert binds_early(Hint(gap_ns=3 * 10**9, load_ns=3 * 10**9), 0)[0]
    assert not binds_early(Hint(gap_ns=3 * 10**9 + 1, load_ns=3 * 10**9), 0)[0]
    assert not binds_early(Hint(policy_needs_batch=True), 0)[0]
    assert binds_early(Hint(policy_needs_batch=True), 8)[0]


@dataclass
class Replica:
    id: str
    generation: int
    in_flight: int


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(0, 4)), max_size=8), st.sets(st.integers(0, 7)))
def test_the_newest_replica_with_the_fewest_calls_is_chosen(pairs: list[tuple[int, int]], avoid: set[int]) -> None:
    replicas = [Replica(str(index), *pair) for index, pair in enumerate(pairs)]
    avoided = {str(index) for index in avoid}
    chosen = choose(replicas, avoided)
    if not replicas:
        assert chosen is None
        return
    assert chosen is not None
    allowed = [replica for replica in replicas if replica.id not in avoided] or replicas
    newest = [replica for replica in allowed if replica.generation == max(r.generation for r in allowed)]
    assert chosen is min(newest, key=lambda replica: replica.in_flight)


@pytest.mark.parametrize("code", sorted(STATUS))
def test_every_error_is_a_plain_sentence_with_what_clients_act_on(code: str) -> None:
    made = answer(SlicewiseError(code, "A sentence.", 0.2))
    headers = dict(made.headers)
    assert made.status == STATUS[code]
    assert made.body.decode().strip() == "A sentence."
    assert headers["X-OpenFaaS-Internal"]
    assert ("Retry-After" in headers) == (made.status in (429, 503))
    assert headers.get("Retry-After", "1") == "1"


@pytest.mark.parametrize("phase", list(Phase))
def test_a_passed_deadline_names_its_limit(phase: Phase) -> None:
    error = invocation.too_late(phase, "f.openfaas-fn", 60.0)
    assert "60 s" in error.message
    assert error.status == (400 if phase is Phase.BODY else 504)
