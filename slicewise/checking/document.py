"""A check as one JSON document: the same whether a person or a program reads it. Seconds and bytes."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from slicewise.checking import advice, comparing, findings
from slicewise.checking.trial import Trial

READ = "$read"


def make(trial: Trial, slices: Sequence[tuple[int, int]], where: str) -> dict[str, Any]:
    """The document. `slices`: (GPCs, bytes) of those that it is to run on; `where` says whose these are."""
    found = findings.all_of(trial)
    room = _memory(trial, slices, where)
    if room["fits"] is False and not any(finding.stage == "memory" for finding in found):
        needed = max(room["held_bytes"], room["peak_bytes"])
        largest = max(size for _, size in slices)
        text = f"It needs {needed} bytes while it serves; the largest slice has {largest}."
        found.append(
            findings.Finding("memory", text, "Give it a larger slice, or make the model or its batch smaller.")
        )
    failing = [asdict(finding) for finding in found if finding.fails]
    for problem in failing:
        del problem["fails"]
    notes = [{"stage": note.stage, "note": note.error, "fix": note.fix} for note in found if not note.fails]
    return {
        "function": str(trial.request.directory),
        "ok": not failing,
        "models": [_model(trial, model) for model in trial.report.get("models", ())],
        "interposed": bool(trial.report.get("greeted")),
        "failures": failing,
        "notes": notes,
        "memory": room,
        "outputs": _outputs(trial),
        "seconds": _seconds(trial),
    }


def _model(trial: Trial, model: dict[str, Any]) -> dict[str, Any]:
    calls = [call for call in trial.report.get("calls", ()) if call["model"] == model["digest"]]
    return {
        "class": model["class_name"],
        "digest": model["digest"],
        "kind": model["kind"],
        "tensors": trial.tensors.get(model["digest"]),
        "bytes": model["tensor_bytes"],
        "called": any(call["method"] != READ for call in calls),
        "methods": [
            {
                "method": "weights read" if call["method"] == READ else call["method"],
                "calls": call["count"],
                "failed": call["failed"],
                "median_s": call["median_s"],
                "on_slice_median_s": call["infer_median_s"],
                "bytes_in": call["bytes_in"],
                "bytes_out": call["bytes_out"],
            }
            for call in calls
        ],
    }


def _memory(trial: Trial, slices: Sequence[tuple[int, int]], where: str) -> dict[str, Any]:
    held, peak = trial.memory.held_bytes, trial.memory.peak_bytes
    needed = max(held, peak)
    refused = findings.refusal(trial) == advice.TOO_LARGE
    known = bool(needed) or refused
    each = [
        {"gpcs": gpcs, "memory_bytes": size, "fits": (bool(needed) and needed <= size) if known else None}
        for gpcs, size in slices
    ]
    return {
        "held_bytes": held,
        "peak_bytes": peak,
        "peak_from": trial.memory.how,
        "slices": each,
        "slices_from": where,
        "fits": any(item["fits"] for item in each) if known else None,
    }


def _outputs(trial: Trial) -> dict[str, Any]:
    here, there = trial.local.answers, trial.answers
    compared = min(len(here), len(there))
    different = findings.first_difference(trial)
    return {
        "compared": compared,
        "same": not different if compared else None,
        "difference": different,
        "status": there[0].status if there else None,
        "local_status": here[0].status if here else None,
        "local_run": trial.local.why,
        "rtol": comparing.RTOL,
        "atol": comparing.ATOL,
    }


def _seconds(trial: Trial) -> dict[str, Any]:
    answers, local, report = trial.answers, trial.local, trial.report
    warm = answers[1:]
    hello, registered = report.get("hello_s"), report.get("registered_s")
    registering = max(0.0, registered - hello) if hello and registered else 0.0
    interposed = (local.activate_s or 0.0) + registering
    whole = hello + registering if hello else None
    return {
        "cold": answers[0].seconds if answers else None,
        "cold_load": _header(answers[0], "load") if answers else None,
        "warm_median": _median([answer.seconds for answer in warm]),
        "warm_on_slice_median": _median([_header(answer, "infer") for answer in warm]),
        "local_first": local.answers[0].seconds if local.answers else None,
        "local_warm_median": _median([answer.seconds for answer in local.answers[1:]]),
        "import": whole,
        "import_interposition": interposed if whole else None,
        "import_interposition_share": min(1.0, interposed / whole) if whole else None,
        "import_activation": local.activate_s,
        "import_registration": registering if whole else None,
        "local_import": local.import_s,
        "local_import_torch": local.torch_s,
    }


def _header(answer: Any, phase: str) -> float | None:
    text = answer.headers.get(f"x-slicewise-{phase}-seconds")
    return float(text) if text is not None else None


def _median(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None
