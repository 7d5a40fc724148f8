"""The GPU checks where there is no GPU: they say so, and hold on a CPU slice, which shows that they can run."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from gpu_manager.service.devices import nvml

pytestmark = pytest.mark.live

COMMAND = [sys.executable, "-m", "benchmarks.check_gpu"]
NAMES = [
    "cuda_after_fork", "context_bytes", "load_bandwidth", "hit_and_miss", "eviction_gives_memory_back",
    "sigkill_gives_memory_back", "limit_is_an_exception",
]  # fmt: skip


@pytest.mark.skipif(nvml.discover("probe") is not None, reason="there is a GPU here")
def test_without_a_gpu_one_line_says_so() -> None:
    done = subprocess.run(COMMAND, capture_output=True, text=True, timeout=60, check=True)
    (line,) = done.stdout.splitlines()
    document = json.loads(line)
    assert (document["skipped"], document["results"]) == (True, [])
    assert document["why"] == "NVML finds no GPU on this machine."
    assert {"command", "machine", "date"} <= document.keys()


def test_all_checks_hold_on_a_cpu_slice_without_torch_in_their_own_process() -> None:
    program = (
        "import sys; from benchmarks import check_gpu; status = check_gpu.main(); "
        "assert 'torch' not in sys.modules; sys.exit(status)"
    )
    command = [sys.executable, "-c", program, "--device", "cpu", "--package-mib", "128"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=110, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    results = {result.pop("check"): result for result in json.loads(done.stdout)["results"]}
    assert list(results) == NAMES
    assert all(result["ok"] for result in results.values())
    assert results["load_bandwidth"]["bytes"] > 128 << 20
    assert results["hit_and_miss"]["hit_s"] < results["hit_and_miss"]["miss_s"]
    assert results["limit_is_an_exception"]["needed_bytes"] > results["limit_is_an_exception"]["limit_bytes"]
