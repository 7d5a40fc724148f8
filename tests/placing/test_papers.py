"""The published policies, to the nanosecond."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.placing.scenario import Scenario, by_the_rules, with_core

MODELS = "abcdef"


@st.composite
def scenarios(draw: st.DrawFn) -> Scenario:
    memories = draw(st.lists(st.integers(4, 12), min_size=1, max_size=4))
    models = {
        m: (draw(st.integers(1, max(memories))), draw(st.integers(0, 30)), draw(st.integers(0, 15)))
        for m in MODELS[: draw(st.integers(1, 6))]
    }
    noisy = draw(st.booleans())
    requests = []
    for _ in range(draw(st.integers(0, 40))):
        m = draw(st.sampled_from(sorted(models)))
        load, infer = models[m][1:]
        if noisy:
            load, infer = draw(st.integers(0, 40)), draw(st.integers(0, 20))
        requests.append((draw(st.integers(0, 60)), m, load, infer))
    policy = draw(
        st.one_of(
            st.just({"name": "lb"}),
            st.builds(lambda n: {"name": "lalb", "o3_limit": n}, st.sampled_from([0, 1, 2, 25])),
        )
    )
    return Scenario(memories, models, requests, policy)


@given(scenarios())
@settings(max_examples=300, deadline=None)
def test_the_core_does_what_the_rules_say(scenario: Scenario) -> None:
    assert with_core(scenario) == by_the_rules(scenario)


@given(scenarios())
@settings(max_examples=100, deadline=None)
def test_nobody_is_overtaken_more_than_the_limit_and_the_order_holds_without_o3(scenario: Scenario) -> None:
    rows = with_core(scenario)
    limit = scenario.policy.get("o3_limit", 0)
    assert isinstance(limit, int)
    assert all(row[5] <= limit for row in rows)


def test_a_request_follows_its_model_past_older_ones_until_the_limit() -> None:
    models = {"a": (4, 10, 5), "b": (4, 10, 5)}
    # One slice with room for one model: every b waits while a's keep coming.
    requests = [(0, "a", 10, 5), (1, "b", 10, 5), *[(2, "a", 10, 5)] * 4]
    rows = with_core(Scenario([4], models, requests, {"name": "lalb", "o3_limit": 2}))
    starts = sorted(range(6), key=lambda i: rows[i][1])
    assert starts == [0, 2, 3, 1, 4, 5]
    assert rows[1][5] == 2
    assert [row[3] for row in rows] == [False, False, True, True, False, True]


def test_waiting_for_a_busy_holder_beats_a_second_load_only_if_it_ends_sooner() -> None:
    models = {"a": (4, 10, 5)}
    soon = with_core(Scenario([4, 4], models, [(0, "a", 10, 5), (1, "a", 10, 5)]))
    assert soon[1][:2] == ("g1", 1)  # 14 + 5 against 10 + 5
    later = with_core(Scenario([4, 4], models, [(0, "a", 10, 5), (11, "a", 10, 5)]))
    assert later[1][:4] == ("g0", 15, 20, True)  # 4 + 5 against 10 + 5


def test_a_miss_goes_where_most_memory_is_free() -> None:
    models = {"a": (4, 10, 5), "b": (4, 10, 5)}
    rows = with_core(Scenario([8, 8], models, [(0, "a", 10, 5), (20, "b", 10, 5)]))
    assert [row[0] for row in rows] == ["g0", "g1"]


def test_a_head_that_fits_no_idle_slice_blocks_under_lb() -> None:
    models = {"big": (8, 10, 5), "small": (2, 10, 5)}
    requests = [(0, "big", 10, 5), (1, "big", 10, 5), (2, "small", 10, 5)]
    rows = with_core(Scenario([2, 8], models, requests, {"name": "lb"}))
    assert rows[2][:2] == ("g0", 15)
