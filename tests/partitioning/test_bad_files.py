"""Bad input to `slicewise partition plan`: exit status 2 and one line that names the field and the fix."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from slicewise import cli
from slicewise.planning import partition_file
from slicewise.planning.batch_sizes import log_normal
from tests.partitioning.files import example

Change = Callable[[dict[str, Any]], object]

CURVE = {str(batch): 0.5 for batch in range(1, 5)}


def _set(path: str, value: Any) -> Change:
    *above, last = path.split("/")

    def change(document: dict[str, Any]) -> None:
        for key in above:
            document = document[key]
        document[last] = value

    return change


def _drop(path: str) -> Change:
    *above, last = path.split("/")

    def change(document: dict[str, Any]) -> None:
        for key in above:
            document = document[key]
        del document[last]

    return change


LOGNORMAL = {"median": 4, "sigma": 0.9, "max": 4}

BAD: list[tuple[Change, str]] = [
    (_set("version", 2), r"version: must be 1"),
    (_set("version", "1"), r"version: "),
    (_set("colour", 1), r"colour: .*gpcs, utilisation_knee"),
    (_drop("gpu"), r"gpu: is missing"),
    (_drop("gpus"), r"gpus: is missing"),
    (_drop("batches"), r"batches: is missing"),
    (_drop("kinds"), r"kinds: is missing"),
    (_set("gpu", "A100"), r"gpu: A100 .*A100-40GB, A100-80GB, H100-80GB, H200-141GB"),
    (_set("gpu", "a100-40gb"), r"gpu: "),
    (_set("gpu", 100), r"gpu: .*string"),
    (_set("gpus", 0), r"gpus: .*at least 1"),
    (_set("gpus", -1), r"gpus: .*at least 1"),
    (_set("gpus", 1.5), r"gpus: .*integer"),
    (_set("gpus", "4"), r"gpus: .*number"),
    (_set("gpus", True), r"gpus: .*number"),
    (_set("gpus", None), r"gpus: .*number"),
    (_set("gpus", 10**400), r"gpus: "),
    (_set("gpus", 10**9), r"gpus: must be at most 100000"),
    (_set("gpcs", 29), r"gpcs: must be at most 28"),
    (_set("gpcs", 0), r"gpcs: .*at least 1"),
    (_set("gpcs", 23.5), r"gpcs: .*integer"),
    (_set("gpcs", float("nan")), r"gpcs: .*finite"),
    (_set("utilisation_knee", 1.01), r"utilisation_knee: .*at most 1"),
    (_set("utilisation_knee", -0.1), r"utilisation_knee: .*at least 0"),
    (_set("utilisation_knee", float("nan")), r"utilisation_knee: .*finite"),
    (_set("utilisation_knee", "0.8"), r"utilisation_knee: .*number"),
    (_set("batches", {}), r"batches: .*at least one"),
    (_set("batches", [0.5, 0.5]), r"batches: must be a mapping"),
    (_set("batches/1", 0.3), r"batches: must sum to 1 within 1e-06, not to 1\.1"),
    (_set("batches/1", 0.199998), r"batches: must sum to 1"),
    (_set("batches/1", -0.2), r"batches\.1: .*at least 0"),
    (_set("batches/1", float("inf")), r"batches\.1: .*finite"),
    (_set("batches/0", 0.0), r"key 0 in batches"),
    (_set("batches/1.5", 0.0), r"key 1\.5 in batches"),
    (_set("batches/one", 0.0), r"key one in batches"),
    (_set("batches/5", 0.0), r"kinds\.1\.utilisation\.5: is missing"),
    (_set("batches/1.0", 0.2), r"batches\.1: stands twice"),
    (_set("batches/1000000000000", 0.0), r"kinds\.1\.utilisation\.5: is missing"),
    (_set("batches/lognormal", LOGNORMAL), r"batches\.1: "),
    (_set("batches", {"lognormal": {**LOGNORMAL, "mean": 4}}), r"batches\.lognormal\.mean: "),
    (_set("batches", {"lognormal": {"median": 4, "sigma": 0.9}}), r"batches\.lognormal\.max: is missing"),
    (_set("batches", {"lognormal": {**LOGNORMAL, "median": 0}}), r"batches\.lognormal\.median: .*above 0"),
    (_set("batches", {"lognormal": {**LOGNORMAL, "sigma": 0}}), r"batches\.lognormal\.sigma: .*above 0"),
    (_set("batches", {"lognormal": {**LOGNORMAL, "max": 0}}), r"batches\.lognormal\.max: .*at least 1"),
    (_set("batches", {"lognormal": {**LOGNORMAL, "max": 2.5}}), r"batches\.lognormal\.max: .*integer"),
    (_set("batches", {"lognormal": {**LOGNORMAL, "max": 5}}), r"kinds\.1\.utilisation\.5: is missing"),
    (_set("batches", {"lognormal": {**LOGNORMAL, "max": 10**12}}), r"kinds\.1\.utilisation\.5: is missing"),
    (_set("batches", {"lognormal": {"median": 1e9, "sigma": 0.01, "max": 4}}), r"batches\.lognormal: has no mass"),
    (_set("batches", {"lognormal": {"median": 1e-9, "sigma": 0.01, "max": 4}}), r"batches\.lognormal: has no mass"),
    (_set("kinds", {}), r"kinds: .*at least one"),
    (_set("kinds", None), r"kinds: must be a mapping"),
    (_set("kinds/5", {"utilisation": CURVE, "throughput_rps": CURVE}), r"kinds\.5: a A100-40GB .*1, 2, 3, 4, 7"),
    (_set("kinds/7.0", {"utilisation": CURVE, "throughput_rps": CURVE}), r"kinds\.7: stands twice"),
    (_set("kinds/2", [1]), r"kinds\.2: must be a mapping"),
    (_set("kinds/1/latency", {}), r"kinds\.1\.latency: "),
    (_drop("kinds/1/throughput_rps"), r"kinds\.1\.throughput_rps: is missing"),
    (_drop("kinds/1/utilisation/2"), r"kinds\.1\.utilisation\.2: is missing; give each batch from 1 to 4"),
    (_drop("kinds/7/throughput_rps/4"), r"kinds\.7\.throughput_rps\.4: is missing"),
    (_set("kinds/7/throughput_rps/4", 0), r"kinds\.7\.throughput_rps\.4: .*above 0"),
    (_set("kinds/7/throughput_rps/9", -1), r"kinds\.7\.throughput_rps\.9: .*above 0"),
    (_set("kinds/7/throughput_rps/4", "20"), r"kinds\.7\.throughput_rps\.4: .*number"),
    (_set("kinds/7/throughput_rps/4", float("inf")), r"kinds\.7\.throughput_rps\.4: .*finite"),
    (_set("kinds/7/utilisation/9", 1.5), r"kinds\.7\.utilisation\.9: .*at most 1"),
    (_set("kinds/7/utilisation/4", -0.1), r"kinds\.7\.utilisation\.4: .*at least 0"),
    (_set("kinds/7/utilisation/4", False), r"kinds\.7\.utilisation\.4: .*number"),
    (_set("kinds/7/throughput_rps/4", 1e-320), r"kinds: throughput_rps is too small"),
]


def _complaint(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], file: Path) -> str:
    monkeypatch.setattr("sys.argv", ["slicewise", "partition", "plan", str(file), "--json"])
    with pytest.raises(SystemExit) as end:
        cli.main()
    assert end.value.code == 2
    out, err = capsys.readouterr()
    assert not out
    assert err.count("\n") == 1
    return err


@pytest.mark.parametrize(("change", "complaint"), BAD, ids=[complaint for _, complaint in BAD])
def test_a_mistake_is_named_with_its_field(
    change: Change,
    complaint: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    document = example()
    change(document)
    file = tmp_path / "plan.json"
    file.write_text(json.dumps(document))
    assert re.search(complaint, _complaint(monkeypatch, capsys, file))


TEXT = """
gpu: A100-40GB
gpus: 1
batches: {1: 1}
kinds: {1: {utilisation: {1: 0.5}, throughput_rps: {1: 40}}}
"""


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("gpus: 1", "gpus: 1\ngpus: 1", "gpus"),
        ("{1: 0.5}", '{1: 0.5, "1": 0.5}', "1: stands twice"),
        ("{1: 0.5}", "{1: 0.5, 1: 0.5}", "1: stands twice"),
        ("{1: 0.5}", "{1: 0.5, 1.0: 0.5}", "twice"),
        ("{1: 40}", "{1: 40, 0x1: 40}", "twice"),
        ("{1: 40}", "{1: .nan}", r"kinds\.1\.throughput_rps\.1: .*finite"),
        ("{1: 40}", "{1: .inf}", r"kinds\.1\.throughput_rps\.1: .*finite"),
        ("{1: 40}", "{1: no}", r"kinds\.1\.throughput_rps\.1: .*number"),
        ("{1: 40}", "{1: 1_000}", r"kinds\.1\.throughput_rps\.1: .*number"),
        ("{1: 40}", "{1: 40", "line"),
        (TEXT, "", "must be a mapping"),
        (TEXT, "[]", "must be a mapping"),
        (TEXT, TEXT + "---\n" + TEXT, "document"),
    ],
)
def test_yaml_is_read_strictly(
    old: str,
    new: str,
    complaint: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = tmp_path / "plan.yaml"
    assert old in TEXT
    file.write_text(TEXT.replace(old, new))
    assert re.search(complaint, _complaint(monkeypatch, capsys, file))


def test_a_file_that_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "plan.yaml: cannot be read" in _complaint(monkeypatch, capsys, tmp_path / "plan.yaml")


def test_what_may_be_left_out_and_how_numbers_may_be_written() -> None:
    asked = partition_file.understood(
        {
            "gpu": "H200-141GB",
            "gpus": 2.0,
            "batches": {"2": 1.0000009},
            "kinds": {"3": {"utilisation": {"2": 0, "1.0": 1}, "throughput_rps": {1: 5, 2: 1e-3, "9": 1}}},
        }
    )
    assert (asked.gpus, asked.gpcs, asked.utilisation_knee) == (2, 14, 0.8)
    assert asked.dist == (0.0, 1.0000009)  # absent is 0, and nothing is scaled
    assert asked.kinds[0].throughput_rps == (5.0, 0.001)


def test_log_normal_batches_hold_the_mass_around_each_integer() -> None:
    def mass(b: int) -> float:  # the density summed over small steps, up to a factor
        xs = [b - 0.5 + (step + 0.5) / 10_000 for step in range(10_000)]
        return sum(math.exp(-((math.log(x / 4) / 0.9) ** 2) / 2) / x for x in xs)

    masses = [mass(b) for b in range(1, 9)]
    assert log_normal(4, 0.9, 8) == pytest.approx([one / sum(masses) for one in masses], abs=1e-6)
    narrow = log_normal(4, 1e-3, 32)
    assert narrow is not None
    assert narrow[3] == pytest.approx(1)
    assert log_normal(4, 1e-320, 32) == narrow
    far = log_normal(1000, 0.3, 32)  # only the tail, yet there is mass
    assert far is not None
    assert far[31] > 0.5
