"""`slicewise simulate` as a person or a script meets it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from slicewise.cli import main
from tests.simulating.scenarios import small

EXAMPLE = """
version: 1
seed: 1                     # default 0
preloaded: false
slices:
  - {id: g0, gpcs: 7, memory_gb: 8.0}
models:
  resnet50:
    memory_gb: 1.9
    load_s: 2.6
    infer_s: {fixed: 1.25, per_item: 0.01}
  bert:
    memory_gb: 1.2
    load_s: 2.0
    infer_s: {table: {"1": {"1": 0.010, "8": 0.060}, "7": {"1": 0.004, "8": 0.012}}}
noise_sigma: 0.0
policy: {name: lalb, o3_limit: 25}
requests:
  - {id: r1, at_s: 0.0, model: resnet50, batch: 1, sla_s: 5.0}
"""
DOCUMENT = """
{"policy": {"name": "lalb", "o3_limit": 25},
 "requests": [{"id": "r1", "slice": "g0", "at_s": 0.0, "start_s": 0.0, "finish_s": 3.86, "hit": false, "false_miss": false, "skips": 0}],
 "summary": {"requests": 1, "mean_latency_s": 3.86, "p50_latency_s": 3.86, "p95_latency_s": 3.86, "p99_latency_s": 3.86, "latency_variance_s2": 0.0,
             "miss_ratio": 1.0, "false_miss_ratio": 0.0, "mean_duplicates_hottest": 1.0, "utilisation": 0.326424870466, "sla_violation_ratio": 0.0, "makespan_s": 3.86}}
"""  # noqa: E501


class Command:
    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self._capsys, self._monkeypatch = folder, capsys, monkeypatch

    def file(self, content: str | dict[str, Any], name: str = "scenario.yaml") -> str:
        path = self.folder / name
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        return str(path)

    def __call__(self, *arguments: str) -> tuple[int, str, str]:
        """(exit status, stdout, stderr)"""
        self._monkeypatch.setattr(sys, "argv", ["slicewise", "simulate", *arguments])
        status = 0
        try:
            main()
        except SystemExit as end:
            status = int(end.code or 0)
        said = self._capsys.readouterr()
        return status, said.out, said.err

    def refused(self, *arguments: str) -> str:
        status, out, err = self(*arguments)
        assert (status, out) == (2, "")
        assert err.count("\n") == 1
        return err


@pytest.fixture
def command(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    return Command(tmp_path, capsys, monkeypatch)


def test_the_contracts_example_gives_the_contracts_document(tmp_path: Path) -> None:
    (tmp_path / "scenario.yaml").write_text(EXAMPLE)
    ended = subprocess.run(
        [sys.executable, "-m", "slicewise.cli", "simulate", "scenario.yaml", "--json"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    assert json.loads(ended.stdout) == json.loads(DOCUMENT)
    assert list(json.loads(ended.stdout)["summary"]) == list(json.loads(DOCUMENT)["summary"])


def test_one_policy_gives_an_object_several_an_array_in_their_order(command: Command) -> None:
    file = command.file(EXAMPLE.replace("o3_limit: 25", "o3_limit: 3.0"))
    _, out, _ = command(file, "--json")
    assert json.loads(out)["policy"] == {"name": "lalb", "o3_limit": 3}
    _, out, _ = command(file, "--policy", "elsa", "--json")
    assert json.loads(out)["policy"] == {"name": "elsa", "alpha": 1.0, "beta": 1.0}
    _, out, _ = command(file, "--policy", "lalb", "--policy", "lb", "--policy", "lalb", "--json")
    assert [d["policy"] for d in json.loads(out)] == [
        {"name": "lalb", "o3_limit": 3},
        {"name": "lb"},
        {"name": "lalb", "o3_limit": 3},
    ]


def test_people_get_a_line_a_policy(command: Command) -> None:
    status, out, err = command(command.file(EXAMPLE), "--policy", "lb", "--policy", "elsa")
    assert (status, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == "1 requests on 1 slices"
    assert [line.split()[0] for line in lines[1:]] == ["Policy", "lb", "elsa"]


def test_json_is_read_as_json(command: Command) -> None:
    doc = small([(1, 1)], {"a": (1, 1, 1)}, (0, "a"), policy={"name": "lb"})
    file = command.folder / "tabs.json"
    file.write_text(json.dumps(doc, indent="\t"))
    status, out, _ = command(str(file), "--json")
    assert status == 0
    assert json.loads(out)["requests"][0]["finish_s"] == 2.0


def test_an_invalid_policy_in_the_file_is_bad_input_whatever_is_asked_for(command: Command) -> None:
    file = command.file(EXAMPLE.replace("o3_limit: 25", "o3_limit: -1"))
    assert "policy.o3_limit" in command.refused(file, "--policy", "lb")


def test_a_policy_that_is_none(command: Command) -> None:
    assert "--policy.name: 'best' is no policy" in command.refused(command.file(EXAMPLE), "--policy", "best")


def test_a_file_that_is_not_there_or_not_text(command: Command) -> None:
    assert "cannot be read" in command.refused(str(command.folder / "none.yaml"))
    assert "cannot be read" in command.refused(str(command.folder))
    (command.folder / "binary").write_bytes(b"\xff\xfe\x00")
    assert "cannot be read" in command.refused(str(command.folder / "binary"))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("t.csv", "model,at_s,batch,sla_s,id\na,0,2,,x\n\na,0.5,,1.5,\nb,1e-1,1,9,7\n"),
        (
            "t.jsonl",
            '{"at_s": 0, "model": "a", "batch": 2, "id": "x"}\n{"at_s": 0.5, "model": "a", "sla_s": 1.5}\n'
            '{"at_s": 0.1, "model": "b", "sla_s": 9, "id": "7"}\n',
        ),
    ],
)
def test_requests_may_come_from_a_file_of_their_own(command: Command, name: str, text: str) -> None:
    doc = small([(1, 3)], {"a": (1, 1, 1), "b": (1, 1, 1)}, policy={"name": "lb"})
    command.file(text, name)
    _, out, err = command(command.file(doc | {"requests": {"trace": name}}), "--json")
    assert err == ""
    result = json.loads(out)
    assert [(r["id"], r["at_s"], r["start_s"]) for r in result["requests"]] == [
        ("x", 0.0, 0.0), ("r2", 0.5, 4.0), ("7", 0.1, 2.0),
    ]  # fmt: skip
    assert result["summary"]["sla_violation_ratio"] == 0.5


@pytest.mark.parametrize(
    ("name", "text", "named"),
    [
        ("t.csv", "at_s,model\n0,a\nx,a\n", "t.csv:3.at_s"),
        ("t.csv", "at_s,model\n0\n", "t.csv:2"),
        ("t.csv", "at_s,at_s\n0,1\n", "at_s"),
        ("t.csv", "at_s,model,colour\n0,a,red\n", "t.csv:2.colour"),
        ("t.csv", "at_s,model,id\n0,a,r2\n0,a,\n", "t.csv:3.id"),
        ("t.csv", "at_s,model\n0,z\n", "t.csv:2.model"),
        ("t.jsonl", '{"at_s": 0, "model": "a"}\n{"at_s": 0, "at_s": 1}\n', "t.jsonl:2"),
        ("t.jsonl", "[1]\n", "t.jsonl:1"),
        ("t.txt", "", "requests.trace"),
    ],
)
def test_a_bad_trace_is_named_by_file_and_line(command: Command, name: str, text: str, named: str) -> None:
    doc = small([(1, 3)], {"a": (1, 1, 1)}) | {"requests": {"trace": name}}
    command.file(text, name)
    assert named in command.refused(command.file(doc))


def test_a_trace_that_is_not_there(command: Command) -> None:
    doc = small([(1, 3)], {"a": (1, 1, 1)}) | {"requests": {"trace": "none.csv"}}
    assert "requests.trace" in command.refused(command.file(doc))
