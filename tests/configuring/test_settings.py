"""Flags over environment over file; what is unknown is refused by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from proto.types.errors import SlicewiseError
from proto.wire.settings import ServiceSettings, load, read, read_yaml, write_yaml


class Example(ServiceSettings):
    limit: int = 7
    names: tuple[str, ...] = ()


BASE = ["--state-dir", "/tmp", "--trust", "/tmp/trust", "--credential=/tmp/token"]


def test_flags_win_over_environment_and_environment_over_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "example.yaml"
    write_yaml(file, {"limit": 1, "listen": "127.0.0.1:1", "log_level": "DEBUG", "names": ["no", "on"]})
    monkeypatch.setenv("SLICEWISE_EXAMPLE_LIMIT", "2")
    monkeypatch.setenv("SLICEWISE_EXAMPLE_LISTEN", "127.0.0.1:2")
    settings = read(Example, "example", [*BASE, "--config", str(file), "--limit", "3"])
    assert (settings.limit, settings.listen, settings.log_level) == (3, "127.0.0.1:2", "DEBUG")
    assert settings.names == ("no", "on")


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--limits", "3"], "--limits"),
        (["--limit", "many"], "limit"),
        (["--limit"], "--limit"),
        (["limit"], "limit"),
    ],
)
def test_a_bad_flag_is_named(arguments: list[str], named: str) -> None:
    with pytest.raises(SlicewiseError, match=named):
        read(Example, "example", [*BASE, *arguments])


def test_a_missing_key_is_named() -> None:
    with pytest.raises(SlicewiseError, match="trust: is required"):
        read(Example, "example", ["--state_dir", "/tmp", "--credential", "/tmp/token"])


def test_unknown_keys_in_file_and_environment_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "example.yaml"
    write_yaml(file, {"limiit": 1})
    with pytest.raises(SlicewiseError, match="limiit: there is no such setting"):
        read(Example, "example", [*BASE, "--config", str(file)])
    monkeypatch.setenv("SLICEWISE_EXAMPLE_TYPO", "1")
    with pytest.raises(SlicewiseError, match="SLICEWISE_EXAMPLE_TYPO"):
        read(Example, "example", BASE)


def test_a_service_ends_with_status_two_and_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        load(Example, "example", [*BASE, "--limits", "3"])
    assert caught.value.code == 2
    assert capsys.readouterr().err == "example: --limits: there is no such setting.\n"


@pytest.mark.parametrize("text", ["a: 1\na: 2\n", "a: [1\n", "- 1\n", "\x00"])
def test_yaml_that_is_no_plain_mapping_is_refused_with_the_file_s_name(tmp_path: Path, text: str) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text(text)
    with pytest.raises(SlicewiseError, match=r"bad\.yaml"):
        read_yaml(file)


def test_yaml_is_version_1_2(tmp_path: Path) -> None:
    file = tmp_path / "good.yaml"
    file.write_text("a: no\nb: 1e-3\nc: 1:30\n")
    assert read_yaml(file) == {"a": "no", "b": 0.001, "c": "1:30"}
