"""Brings the corpus through a platform and, beside it, through a process without one.

Each function is built as soon as its folder is prepared, deployed, called and removed again; a few at a time, so
that a small machine is neither idle nor overrun. What came back is kept for the tests to look at.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from functions.service import bundles
from tests.corpus.cases import CASE, PREPARE, Call, Case
from tests.platform_functions import process_name, remove
from tests.platform_rig import Platform, Reply

REPOSITORY = Path(__file__).resolve().parents[2]
LANES = 3
READY_S, CALL_S, ANSWER_S, LOG_S = 120.0, 120.0, 300.0, 3.0
# The first model of a large library waits until a worker's nursery has imported it, which a busy machine does slowly.
LIMITS = {"exec_timeout": "110s", "write_timeout": "110s"}
WHY = "com.slicewise.why"
NAME_BYTES = 15  # Linux keeps so much of a process' name


@dataclass(frozen=True)
class Outcome:
    """What came of one function: replies in the order of its calls, and what else can be seen from outside."""

    replies: list[Reply]
    logs: list[str]  # what the function wrote meanwhile, for calls that did not give what they should
    models: int
    before: set[tuple[int, float]]  # its processes (pid, start) when it was ready ...
    after: set[tuple[int, float]]  # ... and when it had answered


@dataclass(frozen=True)
class Answer:
    """What the handler answered without Slicewise."""

    status: int
    body: bytes


class Corpus:
    """All chosen cases under way; `outcome` and `alone` wait for one of them."""

    def __init__(self, platform: Platform, cases: Iterable[Case], folder: Path) -> None:
        self._platform = platform
        self._folder = folder
        self._cases = {case.name: case for case in cases}
        self._outcomes: dict[str, Future[Outcome]] = {name: Future() for name in self._cases}
        self._answers: dict[str, Future[list[Answer]]] = {name: Future() for name in self._cases}
        self._lanes = ThreadPoolExecutor(LANES, "corpus")
        self._deployed: list[str] = []
        self._brought: set[str] = set()  # cases whose outcome is known or on its way
        folder.chmod(0o755)
        for case in self._cases.values():
            leave_out = shutil.ignore_patterns(CASE, "__pycache__")
            shutil.copytree(case.folder, folder / case.name, ignore=leave_out)
        self._process = self._start_alone()
        self._reader = threading.Thread(target=self._read, name="corpus-alone")
        self._reader.start()

    def outcome(self, case: Case) -> Outcome:
        """What the platform made of it; raises what kept it from being called."""
        return self._outcomes[case.name].result(ANSWER_S)

    def alone(self, case: Case) -> list[Answer]:
        """What the handler answered without Slicewise; raises AssertionError with its traceback."""
        return self._answers[case.name].result(ANSWER_S)

    def close(self) -> None:
        """End what still runs and leave the platform as it was."""
        self._process.kill()
        self._process.wait()
        self._reader.join()
        self._lanes.shutdown(cancel_futures=True)
        remove(self._platform, *self._deployed)

    # ------------------------------------------------------------------ without Slicewise

    def _start_alone(self) -> subprocess.Popen[str]:
        orders = [
            {
                "name": case.name,
                "folder": str(self._folder / case.name),
                "imports": case.imports,
                "server": case.server,
                "no_gpu": case.no_gpu,
                "calls": [_order(call) for call in comparable(case)],
            }
            for case in self._cases.values()
        ]
        file = self._folder / "orders.json"
        file.write_text(json.dumps(orders))
        environment = {
            key: value for key, value in os.environ.items() if not key.startswith("SLICEWISE_") and key != "PYTHONPATH"
        }
        environment |= {"OMP_NUM_THREADS": "1", "KERAS_BACKEND": "torch", "PYTHONDONTWRITEBYTECODE": "1"}
        with (self._folder / "alone.log").open("w") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "tests.corpus.alone", str(file)],
                cwd=REPOSITORY,
                env=environment,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )

    def _read(self) -> None:
        """Take in what the other process tells, until it ends."""
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                self._take(json.loads(line))
        missing = AssertionError("the process without Slicewise ended early; its alone.log says why")
        for name in self._cases:
            self._give_up(name, missing)

    def _give_up(self, name: str, failure: AssertionError) -> None:
        """Nobody shall wait for what cannot come any more."""
        if not self._answers[name].done():
            self._answers[name].set_exception(failure)
        if name not in self._brought:
            self._brought.add(name)
            self._outcomes[name].set_exception(failure)

    def _take(self, said: dict[str, Any]) -> None:
        if "prepared" in said:
            self._brought.add(said["prepared"])
            self._lanes.submit(self._bring, self._cases[said["prepared"]])
        elif "answered" in said:
            made = [Answer(answer["status"], base64.b64decode(answer["body"])) for answer in said["answers"]]
            self._answers[said["answered"]].set_result(made)
        else:
            name = said["failed"]
            self._give_up(name, AssertionError(f"{name} fails without Slicewise:\n{said['why']}"))

    # ------------------------------------------------------------------ on the platform

    def _bring(self, case: Case) -> None:
        future = self._outcomes[case.name]
        try:
            future.set_result(self._called(case))
        except BaseException as error:
            future.set_exception(error)

    def _called(self, case: Case) -> Outcome:
        platform, folder = self._platform, self._folder / case.name
        image = f"corpus-{case.name}"
        source = self._folder / "bundles" / case.name
        shutil.copytree(folder, source, ignore=shutil.ignore_patterns(PREPARE, "__pycache__"))
        # What `slicewise build` does; so many commands would take longer than all else here.
        bundles.build(source, image, platform.state_dir / "images")
        labels = {"com.slicewise.gpu": "true"}
        request = {"service": case.name, "image": image, "labels": labels, "envVars": LIMITS}
        answer = platform.system("/system/functions", "POST", request)
        assert answer.status == 202, answer.text
        self._deployed.append(case.name)
        try:
            self._until_ready(case.name)
            before = self._processes(case)
            replies, logs = self._calls(case)
            after = self._processes(case)
            models = [model for model in self._models() if model.get("function") == f"{case.name}.openfaas-fn"]
            return Outcome(replies, logs, len(models), before, after)
        finally:
            platform.system("/system/functions", "DELETE", {"functionName": case.name})

    def _until_ready(self, name: str) -> None:
        deadline, pause_s = time.monotonic() + READY_S, 0.1
        while True:
            said = self._platform.system(f"/system/function/{name}").json()
            if said.get("availableReplicas", 0):
                return
            why = said.get("annotations", {}).get(WHY, "")
            assert "Last lines" not in why, f"{name} does not start: {why}"
            assert time.monotonic() < deadline, f"{name} is not ready: {said}"
            time.sleep(pause_s)
            pause_s = min(0.5, 1.3 * pause_s)

    def _calls(self, case: Case) -> tuple[list[Reply], list[str]]:
        """(replies, logs): lines of the log belong to the call before which they were not there."""
        replies, logs, seen = [], [], 0
        for call in case.calls:
            kind = {"Content-Type": call.content_type}
            reply = self._platform.call(f"{case.name}{call.path}", call.payload, kind, CALL_S)
            replies.append(reply)
            logs.append("")
            if call.refused or reply.status != call.status:
                lines = self._log(case, seen, call.refused)
                logs[-1] = "\n".join(lines)
                seen += len(lines)
        return replies, logs

    def _log(self, case: Case, seen: int, words: tuple[str, ...]) -> list[str]:
        """The lines after the first `seen`; what was written before an answer may arrive a moment after it."""
        deadline = time.monotonic() + LOG_S
        while True:
            told = self._platform.system(f"/system/logs?name={case.name}&tail=500").text.splitlines()
            lines = [json.loads(line)["text"] for line in told][seen:]
            if all(word in "\n".join(lines) for word in words) or time.monotonic() > deadline:
                return lines
            time.sleep(0.1)

    def _models(self) -> list[dict[str, Any]]:
        return list(self._platform.system("/system/models").json()["models"])

    def _processes(self, case: Case) -> set[tuple[int, float]]:
        """The function's own process, by its name; a server of its own has another one."""
        found = set()
        for process in self._platform.processes():
            if process_name(process) == case.name[:NAME_BYTES]:
                found.add((process.pid, process.create_time()))
        return found


def comparable(case: Case) -> list[Call]:
    """The calls that are made without Slicewise too."""
    return [call for call in case.calls if not call.refused and call.expect is None]


def _order(call: Call) -> dict[str, Any]:
    return {"path": call.path, "body": call.payload.decode(), "content_type": call.content_type}
