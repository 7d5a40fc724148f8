"""Where arrivals go, and who follows a job that is done."""

from __future__ import annotations

from scheduler.core.chains.dispatching import Dispatcher, JoinFastestFreeChain, Start
from scheduler.core.chains.model import NS, Chain
from simulator.chains.policies import make_policy

_SLOW, _FAST, _FAST_TOO = Chain((0,), 3 * NS, 2), Chain((1,), NS, 1), Chain((2,), NS, 1)
_CHAINS = [_SLOW, _FAST, _FAST_TOO]


class _Always:
    """A draw whose outcome the test decides; it notes among how many it chose."""

    def __init__(self, *outcomes: int) -> None:
        self.outcomes = list(outcomes)
        self.among: list[int] = []

    def integers(self, low: int, /) -> int:
        self.among.append(low)
        return self.outcomes.pop(0)


def _choice(name: str, jobs: list[int], *draws: int) -> int | None:
    random = _Always(*draws)
    chosen = make_policy(name, _CHAINS, random).choose(jobs)
    assert not random.outcomes
    return chosen


def test_jffc_takes_the_fastest_free_chain_ties_by_index() -> None:
    assert _choice("jffc", [0, 0, 0]) == 1
    assert _choice("jffc", [0, 1, 0]) == 2
    assert _choice("jffc", [1, 1, 1]) == 0
    assert _choice("jffc", [2, 1, 1]) is None


def test_jffc_keeps_one_queue_and_its_head_goes_where_a_slot_is_freed() -> None:
    dispatcher = Dispatcher(_CHAINS, JoinFastestFreeChain(_CHAINS))
    assert [dispatcher.arrive(job) for job in range(4)] == [Start(0, 1), Start(1, 2), Start(2, 0), Start(3, 0)]
    assert [dispatcher.arrive(job) for job in (4, 5)] == [None, None]
    assert (dispatcher.jobs, dispatcher.waiting) == ([2, 1, 1], 2)
    assert dispatcher.complete(0) == Start(4, 0)
    assert dispatcher.complete(2) == Start(5, 2)
    assert (dispatcher.jobs, dispatcher.waiting) == ([2, 1, 1], 0)
    assert dispatcher.complete(0) is None
    assert dispatcher.jobs == [1, 1, 1]


def test_a_job_that_chose_a_full_chain_waits_for_that_chain() -> None:
    dispatcher = Dispatcher(_CHAINS, make_policy("sed", _CHAINS, _Always()))
    assert [dispatcher.arrive(job) for job in range(3)] == [Start(0, 1), Start(1, 2), None]  # 2 s beat 3 s
    assert dispatcher.jobs == [0, 2, 1]
    assert dispatcher.complete(2) is None
    assert dispatcher.complete(1) == Start(2, 1)
    assert (dispatcher.jobs, dispatcher.waiting) == ([0, 1, 0], 0)


def test_the_policies_for_comparison() -> None:
    assert _choice("jsq", [0, 1, 0], 1) == 2
    assert _choice("jsq", [2, 1, 2]) == 1  # full, and chosen all the same
    assert _choice("jiq", [0, 1, 0], 0) == 0
    assert _choice("jiq", [1, 1, 1]) == 0
    assert _choice("jiq", [2, 1, 1]) is None
    assert _choice("sed", [0, 2, 2]) == 0  # 3 s against 3 s: ties by index
    assert _choice("sed", [2, 3, 2]) == 2
    assert _choice("sa-jsq", [0, 0, 0]) == 1
    assert _choice("sa-jsq", [0, 1, 1]) == 0
    assert _choice("sa-jsq", [2, 1, 1]) is None
