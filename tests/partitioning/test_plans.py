"""What `slicewise partition plan` prints: the contract's example, and the same as a second, naive reading."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example as trying
from hypothesis import given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML

from gpu_manager.core import paris
from proto.types.partitioning import Kind
from slicewise import cli
from slicewise.commands.partition import document
from slicewise.planning import mig_parted, partition_file
from tests.partitioning import files, naive

CONTRACT = """
gpu: A100-40GB              # A100-40GB, A100-80GB, H100-80GB, H200-141GB
gpus: 4
gpcs: 24                    # GPC budget, at most 7 * gpus, its default
batches: {"1": 0.2, "2": 0.2, "3": 0.4, "4": 0.2}
kinds:
  "1": {utilisation: {"1": 0.5, "2": 0.85, "3": 0.9, "4": 0.95}, throughput_rps: {"1": 40, "2": 20, "3": 12, "4": 9}}
  7: {utilisation: {1: 1e-1, 2: 0.3, 3: 0.5, 4: 0.6}, throughput_rps: {1: 60, "2": 45, 3.0: 30, 4: 20}}
"""


def _plan(given_document: dict[str, Any]) -> dict[str, Any]:
    asked = partition_file.understood(given_document)
    return document(paris.partition(asked.gpu, asked.gpus, asked.gpcs, asked.kinds, asked.dist, asked.utilisation_knee))


def _command(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr("sys.argv", ["slicewise", "partition", "plan", *arguments])
    try:
        cli.main()
    except SystemExit as end:
        return int(end.code or 0)
    return 0


@pytest.fixture
def contract_file(tmp_path: Path) -> str:
    file = tmp_path / "plan.yaml"
    file.write_text(CONTRACT)
    return str(file)


def test_the_contract_s_example(
    contract_file: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _command(monkeypatch, contract_file, "--json") == 0
    out, err = capsys.readouterr()
    assert not err
    found = json.loads(out)
    assert found == {
        "knees": {"1": 2, "7": 4},
        "ratios": {"1": pytest.approx(0.015, rel=1e-12), "7": pytest.approx(0.7 / 30, rel=1e-12)},
        "instances": {"1": 3, "7": 3},
        "leftover_gpcs": 0,
        "layout": [
            *[[{"profile": "7g.40gb", "gpcs": 7, "start": 0}]] * 3,
            [{"profile": "1g.5gb", "gpcs": 1, "start": start} for start in (4, 5, 6)],
        ],
    }
    assert list(found) == ["knees", "ratios", "instances", "leftover_gpcs", "layout"]
    assert found == _plan(files.example())


def test_figure_8_of_the_paper() -> None:
    kinds = [Kind(1, (0.5, 0.9, 1, 1), (40, 20, 1, 1)), Kind(7, (0.1, 0.2, 0.5, 0.9), (1, 1, 30, 20))]
    dist = [0.2, 0.2, 0.4, 0.2]
    knees = paris.knees(kinds, 4, 0.8)
    assert knees == [2, 4]
    small, large = (100 * ratio for ratio in paris.ratios(kinds, dist, knees))
    assert (small, large) == (pytest.approx(1.5), pytest.approx(2.33, abs=0.005))


def test_knees_of_real_curves_are_made_to_rise_and_to_reach_the_end() -> None:
    never = Kind(1, (0.1, 0.2, 0.8), (1, 1, 1))  # reaches the threshold, does not pass it
    early = Kind(2, (0.9, 0.9, 0.9), (1, 1, 1))
    middle = Kind(3, (0.1, 0.9, 0.9), (1, 1, 1))
    assert paris.knees([never, early], 3, 0.8) == [3, 3]
    assert paris.knees([middle, early, never], 3, 0.8) == [2, 2, 3]
    assert paris.knees([early], 3, 0.8) == [3]
    assert paris.ratios([never, early], [0.5, 0.25, 0.25], [3, 3]) == [1.0, 0.0]
    wide = Kind(1, (0.1, 0.9, 0.9), (1, 1, 1))
    assert paris.knees([wide, never], 1, 0.8) == [1, 1]  # only batches up to the largest count


@settings(max_examples=100, deadline=None)
@given(given_document=files.documents())
@trying(given_document=files.example())
def test_plans_equal_a_naive_reading_of_the_contract(given_document: dict[str, Any]) -> None:
    found, expected = _plan(json.loads(json.dumps(given_document))), naive.plan(_plain_keys(given_document))
    assert found["knees"] == {str(size): knee for size, knee in expected["knees"].items()}
    assert found["ratios"] == {str(size): pytest.approx(float(r), rel=1e-9) for size, r in expected["ratios"].items()}
    assert found["instances"] == {str(size): count for size, count in expected["instances"].items()}
    assert found["leftover_gpcs"] == expected["leftover_gpcs"]


def _plain_keys(value: Any) -> Any:
    if isinstance(value, dict):
        return {key if key == "lognormal" else _name(key): _plain_keys(item) for key, item in value.items()}
    return value


def _name(key: Any) -> str:
    return key if isinstance(key, str) else str(int(key))


@settings(max_examples=60, deadline=None)
@given(given_document=files.documents())
def test_a_plan_keeps_its_budget_and_its_layout_holds_exactly_its_instances(given_document: dict[str, Any]) -> None:
    found = _plan(given_document)
    gpu, gpus = given_document["gpu"], given_document["gpus"]
    counts = {int(size): count for size, count in found["instances"].items()}
    used = sum(size * count for size, count in counts.items())
    assert found["leftover_gpcs"] == given_document.get("gpcs", 7 * gpus) - used >= 0
    assert len(found["layout"]) == gpus
    assert Counter(one["gpcs"] for instances in found["layout"] for one in instances) == +Counter(counts)
    for instances in found["layout"]:
        taken: set[int] = set()
        assert sum(one["gpcs"] for one in instances) <= 7
        for one in instances:
            size, starts = naive.PLACES[one["gpcs"]]
            assert one["profile"] == naive.NAMES[gpu][one["gpcs"]]
            assert one["start"] in starts
            slices = set(range(one["start"], one["start"] + size))
            assert not slices & taken
            taken |= slices
    # Nothing that is wanted would still fit within what is left.
    for size, ratio in found["ratios"].items():
        more = {**counts, int(size): counts[int(size)] + 1}
        if ratio > 0 and int(size) <= found["leftover_gpcs"]:
            assert not naive.possible(tuple(more.get(one, 0) for one in naive.SIZES), gpus)


@settings(max_examples=40, deadline=None)
@given(given_document=files.documents(), data=st.data())
def test_the_order_and_the_spelling_of_a_file_do_not_matter(
    given_document: dict[str, Any], data: st.DataObject
) -> None:
    keys = data.draw(st.permutations(sorted(given_document)))
    kinds = given_document["kinds"]
    shuffled = {key: given_document[key] for key in keys}
    shuffled["kinds"] = {key: kinds[key] for key in data.draw(st.permutations(list(kinds)))}
    assert _plan(shuffled) == _plan(_plain_keys(given_document))


@settings(max_examples=50, deadline=None)
@given(given_document=files.documents())
def test_mig_parted_s_file_says_the_same_as_the_layout(given_document: dict[str, Any]) -> None:
    asked = partition_file.understood(given_document)
    plan = paris.partition(asked.gpu, asked.gpus, asked.gpcs, asked.kinds, asked.dist, asked.utilisation_knee)
    read = YAML(typ="safe", pure=True).load(mig_parted.text(plan.layout))
    assert set(read) == {"version", "mig-configs"}
    assert read["version"] == "v1"
    assert set(read["mig-configs"]) == {"slicewise"}
    seen: dict[int, dict[str, int]] = {}
    for entry in read["mig-configs"]["slicewise"]:
        assert set(entry) == {"devices", "mig-enabled", "mig-devices"}
        assert entry["mig-enabled"] is bool(entry["mig-devices"])
        for device in entry["devices"]:
            assert device not in seen
            seen[device] = entry["mig-devices"]
    assert seen == {at: Counter(one.profile for one in instances) for at, instances in enumerate(plan.layout)}


def test_mig_parted_s_file_as_it_is_printed(
    contract_file: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Path(contract_file).write_text(CONTRACT.replace("gpus: 4", "gpus: 5"))
    assert _command(monkeypatch, contract_file, "--format", "mig-parted") == 0
    out, err = capsys.readouterr()
    assert not err
    assert out == (
        "version: v1\n"
        "mig-configs:\n"
        "  slicewise:\n"
        "    - devices: [0, 1, 2]\n"
        "      mig-enabled: true\n"
        "      mig-devices:\n"
        '        "7g.40gb": 1\n'
        "    - devices: [3]\n"
        "      mig-enabled: true\n"
        "      mig-devices:\n"
        '        "1g.5gb": 3\n'
        "    - devices: [4]\n"
        "      mig-enabled: false\n"
        "      mig-devices: {}\n"
    )


def test_people_get_a_table(
    contract_file: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _command(monkeypatch, contract_file) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["1", "1g.5gb", "1-2", "0.015", "3"] in lines
    assert ["7", "7g.40gb", "3-4", "0.0233333", "3"] in lines


def test_two_forms_at_once_are_refused(
    contract_file: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _command(monkeypatch, contract_file, "--json", "--format", "mig-parted") == 2
    out, err = capsys.readouterr()
    assert not out
    assert err.count("\n") == 1


def test_a_published_configuration_comes_back_from_curves_that_ask_for_it() -> None:
    # BERT in the paper: 2 x GPU(3), 2 x GPU(4), 4 x GPU(7) of 42 GPCs. One batch size a kind, ratios 2 : 2 : 4.
    kinds = {
        3: {"utilisation": {1: 0.9, 2: 0.9, 3: 0.9}, "throughput_rps": {1: 1, 2: 1, 3: 1}},
        4: {"utilisation": {1: 0.5, 2: 0.9, 3: 0.9}, "throughput_rps": {1: 1, 2: 1, 3: 1}},
        7: {"utilisation": {1: 0.3, 2: 0.4, 3: 0.5}, "throughput_rps": {1: 1, 2: 1, 3: 1}},
    }
    asked = {"gpu": "A100-40GB", "gpus": 6, "batches": {1: 0.25, 2: 0.25, 3: 0.5}, "kinds": kinds}
    assert _plan(asked)["instances"] == {"3": 2, "4": 2, "7": 4}
