"""Handlers that fail, in every way that people have found."""

from __future__ import annotations

from collections.abc import Callable

import psutil
import pytest

from tests.recovering.scene import Scene

pytestmark = [pytest.mark.live, pytest.mark.timeout(180)]


@pytest.fixture
def unruly(one: Scene) -> Callable[[str], int]:
    """Calls the function with a wish; the status."""
    one.deploy("unruly", gpu=False)
    return lambda wish: one.call("unruly", wish.encode()).status


def test_a_traceback_is_in_the_log_and_not_in_the_answer(one: Scene) -> None:
    one.deploy("unruly", gpu=False)
    reply = one.call("unruly", b"raise")
    assert reply.status == 500
    assert "RuntimeError" not in reply.text
    assert "Traceback" not in reply.text
    told = one.platform.cli("logs", "unruly", "-o", "plain", "--tail", "50").stdout
    assert "RuntimeError: the reason is in the log" in told
    assert 'handler.py", line' in told


@pytest.mark.parametrize("ending", ["exit0", "exit1", "leave"])
def test_a_handler_that_ends_its_process_costs_its_own_call_only(one: Scene, ending: str) -> None:
    one.deploy("unruly", gpu=False)
    reply = one.call("unruly", ending.encode())
    assert reply.status == 502
    assert reply.headers["x-slicewise-error"] == "function_died"
    status = {"exit0": "0", "exit1": "1", "leave": "3"}[ending]
    assert f"status {status}" in reply.text
    one.platform.wait(lambda: one.call("unruly").status == 200, "the function does not come back")


def test_what_a_handler_has_forked_ends_with_its_function(one: Scene) -> None:
    one.deploy("forking", "unruly", gpu=False)
    reply = one.call("forking", b"fork")
    assert reply.status == 200
    child = psutil.Process(int(reply.text))
    assert one.call("forking").text == "fine"
    one.platform.cli("remove", "forking")
    one.platform.wait(lambda: not child.is_running(), "the handler's child lives on")


def test_megabytes_on_stdout_hold_up_nobody(one: Scene) -> None:
    one.deploy("unruly", gpu=False)
    assert one.call("unruly", b"print").text == "printed"
    one.platform.wait(
        lambda: "0039999 xxx" in one.platform.cli("logs", "unruly", "-o", "plain", "--tail", "5").stdout,
        "its last lines do not come",
    )
    assert one.call("unruly").text == "fine"


def test_a_handler_that_is_broken_from_the_start_says_why_and_backs_off(one: Scene) -> None:
    one.deploy("broken", gpu=False, ready=False)
    described: list[str] = []

    def told() -> bool:
        described[:] = [one.platform.cli("describe", "broken").stdout]
        return "nothing_of_that_name is missing" in described[0]

    one.platform.wait(told, "describe does not say why")
    assert "Not ready" in described[0]
    reply = one.call("broken")
    assert reply.status == 503
    assert "nothing_of_that_name" not in reply.text

    def pauses() -> list[float]:
        log = one.platform.cli("logs", "broken", "-o", "plain", "--tail", "1000").stdout
        return [float(part.split(" s.]")[0]) for part in log.split("Started again in ")[1:]]

    one.platform.wait(lambda: len(pauses()) >= 3, "it is not started again")
    first, second, third = pauses()[:3]
    assert first < second < third
    one.platform.cli("remove", "broken")
