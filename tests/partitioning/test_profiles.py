"""Measurements become curves, and the curves of real models become plausible plans."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from gpu_manager.core import curves, paris
from gpu_manager.core.curves import Point
from proto.types.errors import SlicewiseError
from proto.types.partitioning import Kind, PartitionPlan
from slicewise import cli
from slicewise.planning import measurements, partition_file
from slicewise.planning.batch_sizes import log_normal

MEASURED = Path(__file__).parents[3] / "shared" / "data" / "gpu_profiles"
measured = pytest.mark.skipif(not MEASURED.is_dir(), reason="the measurements of others are not at hand")

PARVAGPU = """Mig instance,Batch size,Workload Number,Throughput,Latency
1,1,1,10,0.1
1,1,2,999,0.1
1,4,1,20,0.2
1,8,1,0,0
7,1,1,20,0.05
7,8,1,80,0.1
7,4,1,64,0.062
"""
MIGPROFILER = """,model_name,batch_size,latency,throughput,mig_profile,gract_mean
0,bert,1,10,1,1g.10gb,0.5
1,bert,4,40,1,1g.10gb,0.9
2,other,1,10,1,1g.10gb,0.1
"""


def _file(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "model.csv"
    file.write_text(text)
    return file


def test_between_measurements_the_time_of_a_call_is_linear() -> None:
    (kind,) = curves.kinds({2: [Point(4, 0.4, 0.8), Point(1, 0.1, 0.5), Point(8, 1.2, 0.6)]}, 6)
    assert kind.gpcs == 2
    assert curves.latencies(kind) == pytest.approx((0.1, 0.2, 0.3, 0.4, 0.6, 0.8))
    assert kind.throughput_rps == pytest.approx((10, 5, 10 / 3, 2.5, 1 / 0.6, 1.25))
    assert kind.utilisation == pytest.approx((0.5, 0.6, 0.7, 0.8, 0.75, 0.7))


def test_without_utilisation_the_throughput_over_its_peak_stands_in() -> None:
    (kind,) = curves.kinds({1: [Point(1, 0.1), Point(2, 0.1), Point(4, 0.1)]}, 2)
    assert kind.utilisation == pytest.approx((0.25, 0.5))  # the peak is at 4, beyond what is planned for


def test_a_size_that_was_not_measured_so_far_is_left_out() -> None:
    points = [Point(1, 0.1), Point(4, 0.2)]
    assert [kind.gpcs for kind in curves.kinds({7: points, 1: points[:1], 2: points[1:], 3: []}, 4)] == [7]
    assert curves.kinds({7: points}, 5) == ()
    assert [len(kind.utilisation) for kind in curves.kinds({7: points, 1: points[:1]}, 1)] == [1, 1]


def test_both_layouts_of_files_are_read(tmp_path: Path) -> None:
    assert measurements.read(_file(tmp_path, PARVAGPU)) == {
        1: [Point(1, 0.1), Point(4, 0.2)],
        7: [Point(1, 0.05), Point(8, 0.1), Point(4, 0.0625)],
    }
    assert measurements.read(_file(tmp_path, MIGPROFILER), "bert") == {1: [Point(1, 0.01, 0.5), Point(4, 0.04, 0.9)]}


@pytest.mark.parametrize(
    ("text", "model", "complaint"),
    [
        ("a,b\n1,2\n", "", "must have the columns"),
        ("", "", "must have the columns"),
        (PARVAGPU, "bert", "--model: .*leave it out"),
        (PARVAGPU + "7,8,1,81,0.1\n", "", "line 9: 7 GPCs and batch 8 are there twice"),
        (PARVAGPU + "7,16,1,nan,0.1\n", "", "line 9 cannot be read"),
        (PARVAGPU + "7,16,1\n7\n", "", "line 10 cannot be read"),
        (PARVAGPU + "7,x,1,5,0.1\n", "", "line 9 cannot be read"),
        (PARVAGPU + "7,0,1,5,0.1\n", "", "line 9 cannot be read .*above 0"),
        (MIGPROFILER, "", "--model: .*bert, other"),
        (MIGPROFILER, "resnet", "--model: .*bert, other"),
        (MIGPROFILER.splitlines()[0], "bert", "--model: .*no model"),
        (MIGPROFILER + "3,bert,8,40,1,A100,0.9\n", "bert", "line 5 cannot be read .*no MIG profile"),
        (MIGPROFILER + "3,bert,8,40,1,1g.10gb,1.2\n", "bert", "line 5 cannot be read .*gract_mean"),
        (MIGPROFILER + "3,bert,8,-40,1,1g.10gb,0.9\n", "bert", "line 5 cannot be read"),
    ],
)
def test_a_file_that_cannot_be_read_is_told_why(tmp_path: Path, text: str, model: str, complaint: str) -> None:
    with pytest.raises(SlicewiseError, match=complaint) as caught:
        measurements.read(_file(tmp_path, text), model)
    assert caught.value.code == "bad_request"


def _command(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr("sys.argv", ["slicewise", "profile", *arguments])
    try:
        cli.main()
    except SystemExit as end:
        return int(end.code or 0)
    return 0


def test_what_profile_prints_is_a_partition_plan_s_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    source, picture = _file(tmp_path, PARVAGPU), tmp_path / "curves.svg"
    arguments = ("--import", str(source), "--gpu", "A100-80GB", "--gpus", "2", "--max-batch", "6")
    assert _command(monkeypatch, *arguments, "--plot", str(picture)) == 0
    out, err = capsys.readouterr()
    assert err == "1 GPCs are left out: not measured from batch 1 to 6.\n"
    (tmp_path / "plan.yaml").write_text(out)
    asked = partition_file.read(tmp_path / "plan.yaml")
    assert (asked.gpu, asked.gpus, asked.gpcs) == ("A100-80GB", 2, 14)
    assert asked.dist == log_normal(4, 0.9, 6)
    (kind,) = curves.kinds(measurements.read(source), 6)
    assert [one.gpcs for one in asked.kinds] == [7]
    assert asked.kinds[0].throughput_rps == pytest.approx(kind.throughput_rps, rel=1e-5)
    assert asked.kinds[0].utilisation == pytest.approx(kind.utilisation, rel=1e-5)
    assert picture.read_text().count("<path") > 10


def test_a_size_too_small_for_the_model_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    source = str(_file(tmp_path, PARVAGPU))
    arguments = ("--import", source, "--gpu", "A100-40GB", "--max-batch", "4")
    assert _command(monkeypatch, *arguments, "--memory-gb", "5.2") == 0
    out, err = capsys.readouterr()
    assert err == "1 GPCs are left out: too small for --memory-gb.\n"
    assert list(YAML(typ="safe", pure=True).load(out)["kinds"]) == [7]
    assert _command(monkeypatch, *arguments, "--memory-gb", "5") == 0
    assert list(YAML(typ="safe", pure=True).load(capsys.readouterr().out)["kinds"]) == [1, 7]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--max-batch", "9"], "--max-batch: .*no size measured from 1 to 9"),
        (["--sigma", "0"], "--sigma"),
        (["--median", "nan"], "--median"),
        (["--median", "1e9", "--sigma", "0.01"], "--median"),
        (["--memory-gb", "nan"], "--memory-gb"),
        (["--max-batch", "4", "--plot", "curves.bmp"], r"--plot: curves.bmp must end in one of \.pdf"),
        (["--max-batch", "4", "--plot", "nowhere/at/all.png"], "--plot: .*cannot be written"),
    ],
)
def test_bad_flags_are_named(
    arguments: list[str],
    complaint: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    source = str(_file(tmp_path, PARVAGPU))
    assert _command(monkeypatch, "--import", source, "--gpu", "A100-40GB", *arguments) == 2
    out, err = capsys.readouterr()
    assert not out
    assert re.search(complaint, err.splitlines()[-1])


def _real(file: str, model: str = "", largest: int = 32) -> tuple[Kind, ...]:
    return curves.kinds(measurements.read(MEASURED / file, model), largest)


def _dist(median: float) -> tuple[float, ...]:
    found = log_normal(median, 0.9, 32)
    assert found is not None
    return found


def _usual_size(plan: PartitionPlan) -> float:
    """The size of the slice that an average GPC belongs to."""
    used = sum(gpcs * count for gpcs, count in plan.instances.items())
    return sum(gpcs * gpcs * count for gpcs, count in plan.instances.items()) / used


@measured
def test_mobilenet_gets_many_small_slices_and_bert_few_large_ones() -> None:
    """As in the paper: MobileNet 6 x GPU(1), 4 x GPU(2), 2 x GPU(3), 1 x GPU(4) of 24; BERT no GPU(1) and GPU(2)."""
    mobilenet = _real("parvagpu/mobilenetv2.csv")
    assert paris.knees(mobilenet, 32, 0.8) == [4, 7, 11, 12, 32]
    small = paris.partition("A100-80GB", 4, 24, mobilenet, _dist(4), 0.8)
    assert small.instances[1] > small.instances[2] >= small.instances[3] >= small.instances[4]
    assert small.leftover_gpcs == 0

    bert = _real("migprofiler/a100-80g_infer_bert-base_bsz.csv")
    large = paris.partition("A100-80GB", 6, 42, bert, _dist(4), 0.8)
    assert _usual_size(large) > _usual_size(small)


@measured
def test_knees_of_measured_utilisation() -> None:
    bert = _real("migprofiler/a100-80g_infer_bert-base_bsz.csv", largest=256)
    assert [kind.gpcs for kind in bert] == [1, 2, 3, 7]
    assert paris.knees(bert, 256, 0.8) == [2, 2, 4, 256]  # the largest takes the rest
    assert next(b for b, used in enumerate(bert[3].utilisation, 1) if used > 0.8) == 8
    resnet = _real("migprofiler/a100-80g_infer_cv.csv", "resnet50")
    assert paris.knees(resnet, 32, 0.8) == [1, 4, 32, 32]  # 3g never passes, so 7g gets nothing
    transformer = _real("migprofiler/a100-80g_infer_cv.csv", "vision_transformer")
    assert paris.knees(transformer, 32, 0.8) == [1, 1, 1, 32]


@measured
@pytest.mark.parametrize("file", sorted(path.name for path in MEASURED.glob("parvagpu/[a-z]*.csv")))
def test_every_model_gets_a_plan_that_uses_its_gpcs(file: str) -> None:
    kinds = _real(f"parvagpu/{file}")
    assert kinds
    for gpus in (1, 4, 8):
        plan = paris.partition("A100-80GB", gpus, 7 * gpus, kinds, _dist(4), 0.8)
        assert 0 <= plan.leftover_gpcs < 7
        assert list(plan.knees.values()) == sorted(plan.knees.values())
        share = dict(zip(plan.knees, paris.shares(_dist(4), list(plan.knees.values())), strict=True))
        largest = max(gpcs for gpcs, ratio in plan.ratios.items() if ratio > 0)
        assert plan.instances[largest] >= 1 or share[largest] < 0.01
