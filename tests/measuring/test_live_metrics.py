"""What the scheduler did is on one page: hits, misses, false misses, duplicates, utilisation, queue, estimates."""

from __future__ import annotations

import urllib.request

import pytest
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

from tests.two_nodes.pair import Pair

pytestmark = [pytest.mark.live, pytest.mark.timeout(180)]

SERVICES = {"scheduler", "cache_manager", "gpu_manager-a", "gpu_manager-b"}


class Page:
    """One scrape of the gateway's metrics port."""

    def __init__(self, pair: Pair) -> None:
        with urllib.request.urlopen(pair.platform.metrics_url, timeout=10) as answer:
            self.text = answer.read().decode()
        self.families: list[Metric] = list(text_string_to_metric_families(self.text))

    def value(self, name: str, **labels: str) -> float:
        found = [s.value for f in self.families for s in f.samples if (s.name, dict(s.labels)) == (name, labels)]
        assert len(found) == 1, f"{name} {labels}: {found}\n{self.text}"
        return float(found[0])

    def invocations(self) -> tuple[float, ...]:
        name = "slicewise_scheduler_invocations_total"
        false = self.value("slicewise_scheduler_false_misses_total")
        return self.value(name, cache="hit"), self.value(name, cache="miss"), false


def test_hits_misses_false_misses_and_duplicates_are_those_that_happened(pair: Pair) -> None:
    def since(then: tuple[float, ...]) -> tuple[float, ...]:
        """Hits, misses and false misses; the slices tell of a turn a moment after its call is answered."""
        return tuple(now - before for now, before in zip(Page(pair).invocations(), then, strict=True))

    before = Page(pair).invocations()
    pair.deploy("counted", "a")
    answers = [pair.call("counted") for _ in range(5)]
    assert [answer.headers["x-slicewise-cache"] for answer in answers] == ["miss", "hit", "hit", "hit", "hit"]
    pair.platform.wait(lambda: sum(since(before)[:2]) == 5, "not all turns are counted")
    assert since(before) == (4, 1, 0)
    assert Page(pair).value("slicewise_scheduler_hottest_duplicates") == 1
    pair.deploy("other", "a")
    pair.call("other")
    pair.hold("other", "a")
    assert pair.call("counted").headers["x-slicewise-slice"] == "b-s0"
    pair.platform.wait(lambda: sum(since(before)[:2]) == 8, "not all turns are counted")
    assert since(before) == (5, 3, 1)  # the held call is a hit of `other`, its first was a miss
    assert Page(pair).value("slicewise_scheduler_hottest_duplicates") == 2


def test_queue_utilisation_and_estimates_are_told_while_calls_wait(pair: Pair) -> None:
    pair.deploy("long", "a")
    pair.call("long")
    turns = Page(pair).value("slicewise_scheduler_turns_total")
    on_a, first = pair.hold("long", "a")
    pair.call("long")
    on_b, second = pair.hold("long", "b")
    waiting = [pair.begin_call("long") for _ in range(3)]
    pair.platform.wait(lambda: Page(pair).value("slicewise_scheduler_queue_depth") == 3, "three calls do not wait")
    page = Page(pair)
    busy = page.value("slicewise_slice_busy_seconds_total", slice="a-s0")
    later = Page(pair)
    assert later.value("slicewise_slice_busy_seconds_total", slice="a-s0") > busy  # its turn still runs
    assert later.value("slicewise_scheduler_queue_age_seconds") > 0
    assert later.value("slicewise_scheduler_bindings") == 2
    pair.thaw(on_a)
    pair.thaw(on_b)
    for answer in (first, second, *waiting):
        assert answer.result().json()["first"] == [2.0, 5.0]
    pair.platform.wait(
        lambda: Page(pair).value("slicewise_scheduler_turns_total") >= turns + 6, "the turns are not counted"
    )
    page = Page(pair)
    assert page.value("slicewise_scheduler_queue_depth") == 0
    real, estimated, error = (
        page.value("slicewise_scheduler_turn_seconds_total", kind=kind)
        for kind in ("real", "estimated", "absolute_error")
    )
    assert real > 0
    assert estimated > 0
    assert abs(real - estimated) <= error + 1e-6


def test_one_page_has_every_service_and_each_family_once(pair: Pair) -> None:
    page = Page(pair)
    assert {name: page.value("slicewise_metrics_page_up", page=name) for name in SERVICES} == dict.fromkeys(SERVICES, 1)
    types = [line.split()[2] for line in page.text.splitlines() if line.startswith("# TYPE ")]
    assert len(types) == len(set(types))
    budget = {s.labels["slice"] for f in page.families for s in f.samples if s.name.endswith("manager_budget_bytes")}
    assert budget == {"a-s0", "b-s0"}
    assert "gateway_functions_seconds" in types


def test_a_service_that_does_not_answer_is_named_and_holds_up_no_page(pair: Pair) -> None:
    silent = pair.manager("b")
    pair.freeze(silent)
    page = Page(pair)
    assert page.value("slicewise_metrics_page_up", page="gpu_manager-b") == 0
    assert page.value("slicewise_metrics_page_up", page="gpu_manager-a") == 1
    pair.thaw(silent)
