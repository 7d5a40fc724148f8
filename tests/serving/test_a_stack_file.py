"""`slicewise deploy -f` carries out everything that a stack file says, through to the function's process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.platform_functions import remove
from tests.platform_rig import Platform

pytestmark = [pytest.mark.live, pytest.mark.timeout(180)]

STACK = """
version: 1.0
provider: {name: openfaas, gateway: "${OPENFAAS_URL}"}
functions:
  stacked:
    lang: python3-http
    handler: ./nowhere
    image: serving-plain
    environment: {FROM: stack, KEPT: "${UNSET_HERE:-default}", SWITCH: no, NUMBER: 0010}
    environment_file: [more.yml]
    labels: {tier: 1, com.example.yes: true}
    annotations: {note: "$$HOME"}
  stacked-gpu:
    image: serving-shelf
    environment: {VALUE: 3}
    limits: {nvidia.com/gpu: 1, memory: 512Mi}
"""
MORE = "environment: {FROM: file, EXTRA: 'yes'}\n"


@pytest.fixture(scope="module")
def stacked(built: Platform, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Platform]:
    folder: Path = tmp_path_factory.mktemp("stack")
    (folder / "stack.yml").write_text(STACK)
    (folder / "more.yml").write_text(MORE)
    built.cli("deploy", "-f", str(folder / "stack.yml"), "--env", "LAST=flag", "--wait", "90")
    yield built
    remove(built, "stacked", "stacked-gpu")


def test_variables_come_from_file_environment_file_substitution_and_flag(stacked: Platform) -> None:
    names = ("FROM", "KEPT", "SWITCH", "NUMBER", "EXTRA", "LAST")
    query = "&".join(f"name={name}" for name in names)
    found = stacked.call(f"stacked/environment?{query}").json()
    assert found == {
        "FROM": "file", "KEPT": "default", "SWITCH": "no", "NUMBER": "0010", "EXTRA": "yes", "LAST": "flag",
    }  # fmt: skip


def test_labels_and_annotations_are_strings_as_written(stacked: Platform) -> None:
    described = stacked.system("/system/function/stacked").json()
    assert described["labels"].items() >= {"tier": "1", "com.example.yes": "true"}.items()
    assert described["annotations"]["note"] == "$HOME"
    assert "limits" not in described


def test_a_gpu_limit_makes_it_a_gpu_function(stacked: Platform) -> None:
    assert stacked.system("/system/function/stacked-gpu").json()["limits"] == {"nvidia.com/gpu": "1", "memory": "512Mi"}
    reply = stacked.call("stacked-gpu", b'{"numbers": [1, 2]}')
    assert (reply.status, reply.text) == (200, "[3.0, 6.0]")
    assert reply.headers["x-slicewise-slice"].startswith("local-s")
