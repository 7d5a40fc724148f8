"""A function beside one node is answered on the other, which has nothing of the first but what was sent to it."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from tests.two_nodes.pair import Pair, open_files, payloads

pytestmark = [pytest.mark.live, pytest.mark.timeout(180)]


def _busy(pair: Pair, node: str = "a") -> None:
    """Another function's call occupies the node's slice until the test ends."""
    pair.deploy("hog", node)
    assert pair.call("hog").headers["x-slicewise-slice"] == f"{node}-s0"
    pair.hold("hog", node)


def test_a_function_beside_one_node_is_answered_on_a_slice_of_the_other(pair: Pair) -> None:
    _busy(pair)
    pair.deploy("far", "a", factor=3)
    answer = pair.call("far")
    assert answer.json() == {"first": [3.0, 7.5], "rows": 1, "same": True}
    assert answer.headers["x-slicewise-slice"] == "b-s0"
    assert answer.headers["x-slicewise-cache"] == "miss"
    again = pair.call("far", "4 -1", rows=75_000)
    assert again.json() == {"first": [12.0, -3.0], "rows": 75_000, "same": True}
    assert (again.headers["x-slicewise-slice"], again.headers["x-slicewise-cache"]) == ("b-s0", "hit")
    # It was uploaded to the node beside it, and pulled from there by its digest.
    at_a, at_b = pair.packages("a", "far"), pair.packages("b", "far")
    assert at_a.keys() == at_b.keys()
    (digest,) = at_b
    assert _sha256(at_a[digest]) == _sha256(at_b[digest])
    assert at_a[digest].stat().st_ino != at_b[digest].stat().st_ino
    address = f"127.0.0.1:{pair.platform.board['addresses']['gpu_manager-a']}"
    assert any(line["message"] == f"model {digest} was pulled from {address}" for line in pair.log("gpu_manager-b"))
    assert not [line for line in pair.log("gpu_manager-a") if f"model {digest} was pulled" in line["message"]]


def test_the_other_node_has_no_file_and_no_memory_of_the_first(pair: Pair) -> None:
    _busy(pair)
    pair.deploy("apart", "a")
    assert pair.call("apart").headers["x-slicewise-slice"] == "b-s0"
    worker = pair.stop("apart", "b")
    answer = pair.begin_call("apart", rows=75_000)
    # The call's tensors are on the way: with the replica beside a, and with the worker of b.
    pair.platform.wait(lambda: pair.statuses()["b-s0"] in ("busy", "stalled"), "b-s0 is not busy")
    pair.platform.wait(lambda: any(payloads(pair.manager("b"))), "no payload has arrived at b")
    memory = {node: {item for process in pair.processes(node) for item in payloads(process)} for node in "ab"}
    assert memory["a"]
    assert memory["b"]
    assert not memory["a"] & memory["b"]
    for node, other in ("ab", "ba"):
        files = [file for process in pair.processes(node) for file in open_files(process)]
        assert any(file.startswith(str(pair.folder(node))) for file in files)
        assert not [file for file in files if file.startswith(str(pair.folder(other)))]
    pair.thaw(worker)
    assert answer.result().json() == {"first": [2.0, 5.0], "rows": 75_000, "same": True}


def test_a_false_miss_is_told_by_answer_state_and_metrics(pair: Pair) -> None:
    pair.deploy("wanted", "b")
    first = pair.call("wanted")
    assert (first.headers["x-slicewise-slice"], first.headers["x-slicewise-cache"]) == ("a-s0", "miss")
    assert pair.placement(first)["false_miss"] is False
    before = pair.metric("scheduler", "slicewise_scheduler_false_misses_total")
    _busy(pair)
    assert pair.holders("wanted") == ["a-s0"]
    answer = pair.call("wanted")
    assert answer.json()["first"] == [2.0, 5.0]
    assert (answer.headers["x-slicewise-slice"], answer.headers["x-slicewise-cache"]) == ("b-s0", "miss")
    placement = pair.placement(answer)
    assert (placement["slice"], placement["hit"], placement["false_miss"]) == ("b-s0", False, True)
    assert pair.metric("scheduler", "slicewise_scheduler_false_misses_total") == before + 1
    assert pair.holders("wanted") == ["a-s0", "b-s0"]


def test_two_functions_of_one_bundle_have_the_same_model_and_both_work(pair: Pair) -> None:
    names = [pair.deploy("twin-one", "a"), pair.deploy("twin-two", "a"), pair.deploy("twin-far", "b")]
    for name in names:
        assert pair.call(name).json()["first"] == [2.0, 5.0]
    digests = {name: set(pair.packages(node, name)) for name, node in zip(names, "aab", strict=True)}
    assert len(set.union(*digests.values())) == 1


def test_a_package_that_a_node_has_is_not_uploaded_beside_another(pair: Pair) -> None:
    pair.deploy("once", "a")
    (digest,) = pair.packages("a", "once")
    pair.platform.wait(lambda: digest in pair.packages("b", "once"), "the second copy does not come")
    # Moved to b, its new process registers the same model, and nobody has to send the package.
    wish = {
        "service": "once", "image": "scale", "labels": {"com.slicewise.gpu": "true"},
        "envVars": {"FACTOR": "2"}, "constraints": ["node=b"],
    }  # fmt: skip
    stored_at = pair.packages("b", "once")[digest].stat().st_mtime_ns
    assert pair.platform.system("/system/functions", "PUT", wish).status == 202
    pair.platform.wait_ready("once")
    assert pair.call("once").json()["first"] == [2.0, 5.0]
    assert pair.packages("b", "once")[digest].stat().st_mtime_ns == stored_at


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
