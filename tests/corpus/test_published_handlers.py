"""Handlers as people publish them, unchanged, on slices: each answers what it answers without Slicewise."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.corpus import cases, comparing
from tests.corpus.cases import Call, Case
from tests.corpus.rig import Corpus, Outcome, comparable
from tests.platform_rig import Platform, Reply

pytest.importorskip("torch")

pytestmark = [pytest.mark.live, pytest.mark.timeout(400)]


def _parameter(case: Case) -> object:
    marks = [pytest.mark.xfail(strict=True, reason=case.fails)] if case.fails else []
    return pytest.param(case, id=case.name, marks=marks)


@pytest.fixture(scope="module")
def corpus(
    platform: Platform, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Corpus]:
    """The cases of the tests that were chosen, on their way."""
    given = [item.callspec.params.get("case") for item in request.session.items if hasattr(item, "callspec")]
    chosen = {case.name: case for case in given if isinstance(case, Case)}
    running = Corpus(platform, chosen.values(), tmp_path_factory.mktemp("corpus"))
    yield running
    running.close()


@pytest.mark.parametrize("case", [_parameter(case) for case in cases.read()])
def test_a_handler_answers_as_it_does_without_slicewise(case: Case, corpus: Corpus) -> None:
    outcome = corpus.outcome(case)
    warm = case.warm
    for call, reply, log in zip(case.calls, outcome.replies, outcome.logs, strict=True):
        if call.refused:
            check_refusal(call, reply, log)
            continue
        assert reply.status == call.status, f"{call.path}: {reply.status} {reply.text}\n{log}"
        check_slice(call, reply, warm)
        warm = warm or not call.cpu
    for call, reply, wanted in pairs(case, corpus, outcome):
        said = comparing.difference(reply.body, wanted, case.rtol)
        assert not said, f"{call.path}: {said}\n{reply.text[:2000]}\n{wanted.decode()[:2000]}"
    if not case.server:
        assert len(outcome.before) == 1
        assert outcome.after == outcome.before, "its process ended and another one took over"
    if case.models is not None:
        assert outcome.models == case.models


def pairs(case: Case, corpus: Corpus, outcome: Outcome) -> Iterator[tuple[Call, Reply, bytes]]:
    """Each call that is not refused, its reply, and the body that it has to be."""
    alone = iter(corpus.alone(case)) if comparable(case) else iter(())
    for call, reply in zip(case.calls, outcome.replies, strict=True):
        if call.expect is not None:
            yield call, reply, call.expected
        elif not call.refused:
            answer = next(alone)
            assert answer.status == call.status
            yield call, reply, answer.body


def check_slice(call: Call, reply: Reply, warm: bool) -> None:
    """Its model ran on a slice, which had to load it before the first call of all."""
    if call.cpu:
        assert "x-slicewise-slice" not in reply.headers
        return
    if call.streamed:
        assert reply.headers.get("transfer-encoding") == "chunked"
    if call.late or call.status >= 400:  # what the model itself refused is counted nowhere
        return
    assert reply.headers.get("x-slicewise-slice", "").startswith("local-s"), f"{call.path} ran on no slice"
    assert reply.headers["x-slicewise-cache"] in (("hit", "miss") if warm else ("miss",))


def check_refusal(call: Call, reply: Reply, log: str) -> None:
    """An error that names the call and the way out, in the answer or in the function's log."""
    assert reply.status >= 400, f"{call.path}: {reply.status} {reply.text}"
    told = reply.text + log
    for words in call.refused:
        assert words in told, f"{call.path}: nothing says {words!r}\n{told}"
