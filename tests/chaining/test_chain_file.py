"""What is wrong with a file is said in one line that names the field, with exit status 2."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from slicewise import cli
from slicewise.planning.chain_file import parse_chain_file
from tests.chaining.examples import document

_SERVER = {"id": "s0", "memory_gb": 40, "comm_s": 0.5, "block_s": 0.109}


def _servers(**changes: Any) -> dict[str, Any]:
    return {"servers": [{key: value for key, value in {**_SERVER, **changes}.items() if value is not None}]}


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"blocks": 0}, "blocks"),
        ({"blocks": 1.5}, "blocks"),
        ({"blocks": True}, "blocks"),
        ({"blocks": "70"}, "blocks"),
        ({"blocks": None}, "blocks"),
        ({"block_gb": 0}, "block_gb"),
        ({"block_gb": float("nan")}, "block_gb"),
        ({"cache_gb": 0}, "cache_gb"),
        ({"cache_gb": -0.1}, "cache_gb"),
        ({"cache_gb": 5e-324}, "cache_gb"),
        ({"rate_rps": 0}, "rate_rps"),
        ({"rate_rps": float("inf")}, "rate_rps"),
        ({"rate_rps": 10**400}, "rate_rps"),
        ({"max_load": 0}, "max_load"),
        ({"max_load": 1.01}, "max_load"),
        ({"c": 0}, "c"),
        ({"c": 2.5}, "c"),
        ({"c": "many"}, "c"),
        ({"c": []}, "c"),
        ({"tune_by": "middle"}, "tune_by"),
        ({"tune_by": 1}, "tune_by"),
        ({"version": 2}, "version"),
        ({"version": "1"}, "version"),
        ({"servers": None}, "servers"),
        ({"servers": {"id": "s0"}}, "servers"),
        ({"servers": ["s0"]}, "servers[0]"),
        ({"servers": [_SERVER, _SERVER]}, "servers[1].id"),
        ({"block_size": 1}, "block_size"),
        (_servers(id=7), "servers[0].id"),
        (_servers(id=None), "servers[0].id"),
        (_servers(memory_gb=0), "servers[0].memory_gb"),
        (_servers(comm_s=-1), "servers[0].comm_s"),
        (_servers(block_s=-0.1), "servers[0].block_s"),
        (_servers(block_s=1e300), "servers[0].block_s"),
        (_servers(block_s=1e299), "servers"),
        (_servers(comm_s=0, block_s=0), "servers[0].block_s"),
        (_servers(comm_s=1e-10, block_s=0), "servers[0].block_s"),
        (_servers(gpcs=3), "servers[0].gpcs"),
    ],
)
def test_bad_input_names_the_field(
    changes: dict[str, Any],
    field: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    status, out, err = _slicewise(monkeypatch, capsys, tmp_path, json.dumps(document(**changes)), "plan")
    assert (status, out) == (2, "")
    assert f"{field}: " in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    "what", ["blocks: 3\nblocks: 3\n", "blocks: [\n", "- blocks\n", "", '{"blocks": 1, "blocks": 1}']
)
def test_what_is_no_document_is_bad_input(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    status, out, err = _slicewise(monkeypatch, capsys, tmp_path, what, "plan")
    assert (status, out, err.count("\n")) == (2, "", 1)


def test_yaml_and_json_are_one_and_whole_floats_are_integers() -> None:
    assert parse_chain_file(document(c=2.0, version=1.0)) == parse_chain_file(document(c=2))
    assert parse_chain_file(document()).c is None
    assert parse_chain_file(document()).service.max_load == 0.7


def test_yaml_core_schema(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    text = "blocks: 2\nblock_gb: 1e0\ncache_gb: .5\nrate_rps: 1e-3\nc: 1\nservers:\n"
    text += "- {id: no, memory_gb: 3, comm_s: 0, block_s: 1e-3}\n"
    status, out, err = _slicewise(monkeypatch, capsys, tmp_path, text, "plan")
    assert (status, err) == (0, "")
    assert json.loads(out) == {
        "c": 1,
        "placement": [{"server": "no", "first_block": 1, "blocks": 2}],
        "chains": [{"servers": ["no"], "time_s": 0.002, "capacity": 1}],
        "total_rate_rps": 500.0,
        "bounds": {"lower_s": pytest.approx(1 / 499.999), "upper_s": pytest.approx(1 / 499.999)},
        "disjoint_chains": 1,
    }


def test_auto_without_an_admissible_c_names_the_rate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for by in ("lower", "upper", "surrogate"):
        text = json.dumps(document(rate_rps=1e6, tune_by=by))
        status, out, err = _slicewise(monkeypatch, capsys, tmp_path, text, "plan")
        assert (status, out, err.count("\n")) == (2, "", 1)
        assert "rate_rps: " in err
    assert _slicewise(monkeypatch, capsys, tmp_path, json.dumps(document(servers=[])), "plan")[0] == 2


def test_a_c_without_chains_is_told_and_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = json.dumps(document(c=300))
    status, out, err = _slicewise(monkeypatch, capsys, tmp_path, text, "plan")
    assert status == 0
    assert "no chain" in err
    plan = json.loads(out)
    assert plan["placement"]
    assert {key: value for key, value in plan.items() if key != "placement"} == {
        "c": 300,
        "chains": [],
        "total_rate_rps": 0.0,
        "bounds": {"lower_s": None, "upper_s": None},
        "disjoint_chains": None,
    }
    status, out, _ = _slicewise(monkeypatch, capsys, tmp_path, text, "simulate", "--jobs", "10")
    assert (status, json.loads(out)["mean_response_s"]) == (0, None)
    assert _slicewise(monkeypatch, capsys, tmp_path, text, "plan", as_json=False)[0] == 0


def test_an_overload_is_told_and_simulated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = json.dumps(document(c=7, rate_rps=50))
    status, out, err = _slicewise(monkeypatch, capsys, tmp_path, text, "simulate", "--jobs", "200", "--seed", "1")
    assert status == 0
    assert "rate_rps: " in err
    assert json.loads(out)["bounds"] == {"lower_s": None, "upper_s": None}
    assert json.loads(out)["mean_wait_s"] > 0


def test_simulate_adds_to_the_plan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = json.dumps(document())
    plan = json.loads(_slicewise(monkeypatch, capsys, tmp_path, text, "plan")[1])
    for policy in ("jffc", "jsq", "jiq", "sed", "sa-jsq"):
        arguments = ("--policy", policy, "--jobs", "500", "--seed", "2")
        status, out, err = _slicewise(monkeypatch, capsys, tmp_path, text, "simulate", *arguments)
        assert (status, err) == (0, "")
        added = {key: value for key, value in json.loads(out).items() if key not in plan}
        assert {key: value for key, value in json.loads(out).items() if key in plan} == plan
        assert list(added) == [
            "mean_response_s",
            "mean_wait_s",
            "p50_response_s",
            "p95_response_s",
            "p99_response_s",
        ]
        assert all(value >= 0 for value in added.values())
        assert _slicewise(monkeypatch, capsys, tmp_path, text, "simulate", *arguments)[1] == out
    for arguments in (("--jobs", "0"), ("--policy", "fifo"), ("--seed", "-1")):
        status, out, err = _slicewise(monkeypatch, capsys, tmp_path, text, "simulate", *arguments)
        assert (status, out, err.count("\n")) == (2, "", 1)
    status, _, err = _slicewise(monkeypatch, capsys, tmp_path, json.dumps(document(rate_rps=1e-300)), "simulate")
    assert (status, "rate_rps: " in err) == (2, True)


def test_a_plan_is_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib")
    picture = tmp_path / "plan.svg"
    text = json.dumps(document(c=7))
    status, out, err = _slicewise(monkeypatch, capsys, tmp_path, text, "plan", "--plot", str(picture))
    assert (status, err) == (0, "")
    assert json.loads(out)["chains"]
    assert picture.read_text().startswith("<?xml")
    assert _slicewise(monkeypatch, capsys, tmp_path, text, "plan", "--plot", str(tmp_path / "plan.txt"))[0] == 2
    assert _slicewise(monkeypatch, capsys, tmp_path, text, "plan", "--plot", str(tmp_path / "no" / "plan.svg"))[0] == 2


def _slicewise(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    folder: Path,
    text: str,
    command: str,
    *arguments: str,
    as_json: bool = True,
) -> tuple[int, str, str]:
    """Exit status, stdout and stderr of `slicewise chain COMMAND` on a file with `text`."""
    file = folder / "chain.yaml"
    file.write_text(text)
    monkeypatch.setattr(
        sys, "argv", ["slicewise", "chain", command, str(file), *arguments, *(["--json"] if as_json else [])]
    )
    status = 0
    try:
        cli.main()
    except SystemExit as end:
        status = int(end.code or 0)
    out, err = capsys.readouterr()
    return status, out, err
