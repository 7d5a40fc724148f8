"""Measurements of models on MIG instances that others have published as CSV files, read as points.

Two layouts are known, told apart by their columns. ParvaGPU's (SC'24) has one model a file, throughput in items per
second and latency rounded to milliseconds, so the time of a call is computed from the throughput; rows with several
processes on one instance are left out, and 0 or N/A says that the model did not fit. MIGProfiler's has latency in
milliseconds and the utilisation that the GPU reported, for several models; its throughput is not used, since
it is not queries per second everywhere.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from gpu_manager.core.curves import Point
from proto.types.errors import SlicewiseError

Number = TypeVar("Number", int, float)
Row = dict[str, str]
Measured = dict[int, list[Point]]

_PARVAGPU = ("Mig instance", "Batch size", "Workload Number", "Throughput")
_MIGPROFILER = ("model_name", "batch_size", "latency", "mig_profile", "gract_mean")


def read(path: Path, model: str = "") -> Measured:
    """GPCs -> points of one model; `model` chooses among those in the file.

    Raises SlicewiseError `bad_request` with file and line for what cannot be read.
    """
    try:
        lines = csv.DictReader(io.StringIO(path.read_text(encoding="utf-8-sig")), restval="")
        rows = [(lines.line_num, row) for row in lines]
        header = lines.fieldnames or ()
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise SlicewiseError("bad_request", f"{path}: cannot be read ({error}).") from error
    if all(column in header for column in _PARVAGPU):
        if model:
            raise SlicewiseError("bad_request", f"--model: {path} does not name models; leave it out.")
        return _collected(path, rows, _parvagpu)
    if all(column in header for column in _MIGPROFILER):
        return _collected(path, _of_model(path, rows, model), _migprofiler)
    raise SlicewiseError(
        "bad_request", f"{path}: must have the columns {', '.join(_PARVAGPU)} or {', '.join(_MIGPROFILER)}."
    )


def _of_model(path: Path, rows: list[tuple[int, Row]], model: str) -> list[tuple[int, Row]]:
    names = sorted({row["model_name"] for _, row in rows})
    if model not in names and (model or len(names) > 1):
        raise SlicewiseError("bad_request", f"--model: {path} has {', '.join(names) or 'no model'}; name one of them.")
    return [(line, row) for line, row in rows if not model or row["model_name"] == model]


def _collected(path: Path, rows: list[tuple[int, Row]], one: Callable[[Row], tuple[int, Point] | None]) -> Measured:
    found: Measured = {}
    for line, row in rows:
        try:
            given = one(row)
        except ValueError as error:
            raise SlicewiseError("bad_request", f"{path}: line {line} cannot be read ({error}).") from error
        if given is None:
            continue
        gpcs, point = given
        points = found.setdefault(gpcs, [])
        if any(point.batch == other.batch for other in points):
            raise SlicewiseError(
                "bad_request", f"{path}: line {line}: {gpcs} GPCs and batch {point.batch} are there twice; keep one."
            )
        points.append(point)
    return found


def _parvagpu(row: Row) -> tuple[int, Point] | None:
    if int(row["Workload Number"]) != 1 or row["Throughput"] in ("", "0", "N/A"):
        return None
    batch = _positive(int(row["Batch size"]))
    return int(row["Mig instance"]), Point(batch, batch / _positive(float(row["Throughput"])))


def _migprofiler(row: Row) -> tuple[int, Point] | None:
    compute, letter, _ = row["mig_profile"].partition("g.")
    if not letter:
        raise ValueError(f"{row['mig_profile']!r} is no MIG profile")
    used = float(row["gract_mean"])
    if not 0 <= used <= 1:
        raise ValueError("gract_mean must be from 0 to 1")
    return int(compute), Point(_positive(int(row["batch_size"])), _positive(float(row["latency"])) / 1000, used)


def _positive(value: Number) -> Number:
    if not 0 < value < float("inf"):
        raise ValueError(f"{value} must be above 0")
    return value
