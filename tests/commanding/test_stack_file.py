"""stack.yml means to `slicewise deploy` what it means to faas-cli."""

from __future__ import annotations

from pathlib import Path

import pytest

from proto.types.errors import SlicewiseError
from slicewise.client.stack import deployments, gateway_of, substitute

STACK = """
version: 1.0
provider:
  name: openfaas
  gateway: http://Example:8080/

x-common: &common
  com.openfaas.scale.min: 2

functions:
  fox:
    lang: python3-http
    handler: ./fox
    image: ${REGISTRY:-local}/fox:${TAG}
    fprocess: python index.py
    environment:
      A: inline
      B: 15
    environment_file: [more.yml]
    secrets: [token]
    constraints: ["node=a"]
    labels:
      <<: *common
      com.slicewise.gpu: true
      number: 1.10
    annotations: {topic: "no"}
    limits: {memory: 128Mi, nvidia.com/gpu: 1}
    requests: {cpu: 100m}
    readonly_root_filesystem: true
    build_args: {X: y}
    some_other_tool: [1, 2]
  dog:
    image: dog
    skip_build: true
    secrets:
"""


@pytest.fixture
def stack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TAG", "1.0")
    monkeypatch.delenv("REGISTRY", raising=False)
    (tmp_path / "more.yml").write_text("environment:\n  A: file\n  C: 'yes'\n")
    file = tmp_path / "stack.yml"
    file.write_text(STACK)
    return file


def test_every_key_reaches_the_request_and_scalars_stay_as_written(stack: Path) -> None:
    fox, dog = deployments(stack, environment={"C": "flag"})
    assert fox == {
        "service": "fox",
        "image": "local/fox:1.0",
        "envProcess": "python index.py",
        "envVars": {"A": "file", "B": "15", "C": "flag"},
        "constraints": ["node=a"],
        "secrets": ["token"],
        "labels": {"com.openfaas.scale.min": "2", "com.slicewise.gpu": "true", "number": "1.10"},
        "annotations": {"topic": "no"},
        "limits": {"memory": "128Mi", "nvidia.com/gpu": "1"},
        "requests": {"cpu": "100m"},
        "readOnlyRootFilesystem": True,
    }
    assert dog == {"service": "dog", "image": "dog", "envVars": {"C": "flag"}}
    assert gateway_of(stack) == "http://Example:8080/"


def test_a_filter_chooses_functions(stack: Path) -> None:
    assert [item["service"] for item in deployments(stack, "d*")] == ["dog"]
    with pytest.raises(SlicewiseError, match="no function matches cat"):
        deployments(stack, "cat")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("${A}", "1"),
        ("${NONE}", ""),
        ("${NONE:-x y}", "x y"),
        ("${EMPTY:-x}", "x"),
        ("${EMPTY-x}", ""),
        ("${NONE:=x}", "x"),
        ("$$ $A ${A}${A}", "$ $A 11"),
    ],
)
def test_variables_are_substituted_as_envsubst_does(text: str, expected: str) -> None:
    assert substitute(text, {"A": "1", "EMPTY": ""}) == expected


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("functions: {a: {image: x}}\nfunctions: {b: {image: x}}\n", "functions"),
        ("provider: {name: other}\nfunctions: {a: {image: x}}\n", "provider.name"),
        ("version: 2.0\nfunctions: {a: {image: x}}\n", "version"),
        ("functions: {a: {handler: x}}\n", "functions.a.image"),
        ("functions: {a: {image: x, labels: [x]}}\n", "functions.a.labels"),
        ("functions: {a: {image: x, secrets: {x: y}}}\n", "functions.a.secrets"),
        ("functions: {a: {image: x, environment_file: [no.yml]}}\n", "no.yml"),
        ("functions: {}\n", "no functions"),
        ("functions: [\n", "not valid YAML"),
    ],
)
def test_mistakes_are_named_with_file_and_key(tmp_path: Path, text: str, named: str) -> None:
    file = tmp_path / "stack.yml"
    file.write_text(text)
    with pytest.raises(SlicewiseError, match=named) as caught:
        deployments(file)
    assert str(file) in caught.value.message
    assert caught.value.code == "bad_request"
