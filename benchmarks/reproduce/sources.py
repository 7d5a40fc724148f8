"""What the papers' figures are made from: configuration files here, and public data in a folder beside the checkout.

Where that folder is absent, a figure says so and is skipped.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path
from typing import Any

from benchmarks import report
from gpu_manager.core.curves import Point
from proto.wire.documents import read_document

DATA = Path(__file__).parents[3] / "shared" / "data"


def figure(name: str) -> dict[str, Any]:
    """The configuration file of a figure."""
    read: dict[str, Any] = read_document(Path(__file__).parent / f"{name}.yaml")
    return read


def page(name: str, given: dict[str, Any], rows: list[dict[str, Any]], notes: str) -> None:
    """Write results/NAME: the rows, what `notes` say, the paragraph of the configuration file, and the picture."""
    words = f"{notes.strip()}\n\n{given['paragraph'].strip()}\n\n![{given['title']}]({name}.svg)"
    report.write(name, given["title"], rows, words)


def data(name: str) -> Path:
    """A file of public data; ends the process with a word on stderr where it is absent."""
    path = DATA / name
    if not path.is_file():
        print(f"Skipped: {path} is not there.", file=sys.stderr)
        sys.exit(0)
    return path


def invocations(path: Path) -> list[list[int]]:
    """Invocations of each function in each minute of the day (Azure Functions 2019, as vHive's samples have it)."""
    with path.open(newline="") as file:
        reader = csv.reader(file)
        next(reader)
        return [[int(cell) for cell in row[3:]] for row in reader]


def substitute_models(path: Path, speed: float = 1.0) -> dict[str, dict[str, Any]]:
    """Models as a scenario has them; sizes are sourced, times assumed (the file says how), divided by `speed`."""
    with path.open(newline="") as file:
        rows = csv.DictReader(line for line in file if not line.startswith("#"))
        return {
            row["model"]: {
                "memory_gb": float(row["size_mb"]) / 1e3,
                "load_s": float(row["load_s"]) / speed,
                "infer_s": {"fixed": float(row["infer_s"]) / speed, "per_item": 0.0},
            }
            for row in rows
        }


def measured_times(path: Path) -> dict[int, list[Point]]:
    """GPCs -> batches and their seconds on an A100 (ParvaGPU's tables), one process a slice.

    The latency column is rounded to a millisecond, so a time is batch / throughput; what did not fit is left out.
    """
    found: dict[int, list[Point]] = {}
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            if row["Workload Number"] == "1" and row["Throughput"] not in ("", "0", "N/A"):
                batch = int(row["Batch size"])
                point = Point(batch, batch / float(row["Throughput"]))
                found.setdefault(int(row["Mig instance"]), []).append(point)
    return found
