"""What crosses the wire arrives as it was; generated code fits its contract; names parse back."""

import subprocess
import sys
from pathlib import Path

import pytest

from proto.types.errors import REPEATABLE, STATUS, SlicewiseError
from proto.types.identity import FunctionKey, WorkerKey
from proto.types.models import Model
from proto.types.placing import Place
from proto.types.slices import CachedWorker, SliceSpec, SliceState, SliceStatus, WorkerStatus
from proto.wire import convert

ROOT = Path(__file__).parents[2]


def test_place_report_and_model_survive_the_wire() -> None:
    place = Place("c", "f.ns@r", 4, 5, 6, 7, 8, True, ("s1", "s2"))
    assert convert.place_from_wire(convert.place_to_wire(place)) == place
    spec = SliceSpec("n-s0", "n", 0, 2, 2**40, "mig")
    workers = (CachedWorker("f.ns@r", WorkerStatus.TURN, 2**33, 9, ("d1", "d2"), "b1"),)
    state = SliceState(spec, 11, "shared", SliceStatus.BUSY, 2**39, workers, ("b1",), "b1", 5, ("b2",))
    assert convert.report_from_wire(convert.report_to_wire(state)) == state
    model = Model("d", "f.ns@r", "module", "Net", 1, 2, "3.11", "2.13.0", (("transformers", "5.24.0"),), "e")
    assert convert.model_from_wire(convert.model_to_wire(model)) == model
    error = SlicewiseError("queue_full", "The queue is full.", 1.5)
    back = convert.error(convert.failure(error))
    assert (back.code, back.message, back.retry_after_s, back.status) == ("queue_full", "The queue is full.", 1.5, 429)


@pytest.mark.parametrize(
    ("text", "namespace", "name"),
    [("f", "openfaas-fn", "f"), ("f.ns", "ns", "f"), ("a.b.ns", "ns", "a.b")],
)
def test_function_names_split_at_the_last_dot(text: str, namespace: str, name: str) -> None:
    assert FunctionKey.parse(text) == FunctionKey(namespace, name)


def test_worker_keys_parse_back() -> None:
    key = WorkerKey(FunctionKey("ns", "f"), "0123abc")
    assert WorkerKey.parse(str(key)) == key
    with pytest.raises(ValueError, match="REVISION"):
        WorkerKey.parse("f.ns")


def test_every_error_has_a_status_that_clients_accept() -> None:
    assert all(400 <= status <= 599 for status in STATUS.values())
    assert SlicewiseError("never heard of", "?").status == 500
    assert {"worker_died", "slice_lost"} <= REPEATABLE


def test_generated_code_is_what_the_contract_generates(tmp_path: Path) -> None:
    source = "proto/wire/generated/slicewise.proto"
    command = [sys.executable, "-m", "grpc_tools.protoc", "-I.", f"--python_out={tmp_path}", f"--pyi_out={tmp_path}"]
    subprocess.run([*command, f"--grpc_python_out={tmp_path}", source], cwd=ROOT, check=True, timeout=60)
    for name in ("slicewise_pb2.py", "slicewise_pb2.pyi", "slicewise_pb2_grpc.py"):
        made = (tmp_path / "proto/wire/generated" / name).read_text()
        assert made == (ROOT / "proto/wire/generated" / name).read_text(), f"run `make proto`: {name} is stale"
