"""What Slicewise cannot run on a slice is said where a person looks: in `slicewise describe`, and in the log."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest

from tests.platform_functions import deploy, remove
from tests.platform_rig import Platform

pytestmark = [pytest.mark.live, pytest.mark.timeout(180)]


def test_python_started_with_minus_i_is_described_as_not_interposed(
    platform: Platform, built: Callable[..., str]
) -> None:
    deploy(platform, "isolated", built("isolated"), gpu=True)
    try:
        platform.wait(lambda: "python started with -I" in why(platform, "isolated"), "no word of it")
        described = platform.cli("describe", "isolated").stdout
        assert why(platform, "isolated") in described
        # It serves all the same, and without the flag nothing is missing.
        assert "Ready" in described
        assert platform.call("isolated").text == "False False"
        deploy(platform, "isolated", built("isolated"))
        platform.wait(lambda: not why(platform, "isolated"), "it is missed without the flag")
    finally:
        remove(platform, "isolated")


def test_who_imports_tensorflow_is_told_how(platform: Platform, built: Callable[..., str]) -> None:
    deploy(platform, "tensors", built("tensors"), gpu=True)
    try:
        told = "Slicewise interposes torch; run Keras 3 on its torch backend: KERAS_BACKEND=torch"
        platform.wait(lambda: told in why(platform, "tensors"), "no word of it")
        assert platform.call("tensors").text == "2.99"
        assert platform.cli("logs", "tensors").stdout.count(told) == 1
    finally:
        remove(platform, "tensors")


def test_a_python_that_no_worker_has_is_refused_with_both_versions(
    platform: Platform, built: Callable[..., str]
) -> None:
    """When its model is registered, at the end of the handler's import: it does not become ready."""
    request = {"service": "minor", "image": built("minor"), "labels": {"com.slicewise.gpu": "true"}}
    assert platform.system("/system/functions", "POST", request).status == 202
    try:

        def refused() -> bool:
            told = why(platform, "minor")
            return "needs Python 3.99" in told and f"have 3.{sys.version_info[1]}/" in told

        platform.wait(refused, "nobody says that the versions differ")
    finally:
        remove(platform, "minor")


def why(platform: Platform, name: str) -> str:
    """What describe says is wrong with a function, "" if nothing is."""
    annotations = platform.system(f"/system/function/{name}").json().get("annotations") or {}
    return str(annotations.get("com.slicewise.why", ""))
