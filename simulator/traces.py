"""Arrivals in a file of their own: `requests: {trace: FILE}`, one request a line, as JSON or as CSV.

The keys are a request's (at_s, model, and if wanted id, batch, sla_s); without an id a line's is r and its
number among the requests, r1 first. In CSV the first line names the columns and an empty cell is left out.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from proto.types.errors import SlicewiseError
from proto.wire.documents import parse_document, scalar
from proto.wire.fields import bad

_NAMES = ("id", "model")  # cells that are text, whatever they look like


def read_trace(path: Path) -> list[tuple[str, Any]]:
    """(where it stands, the request) of every line; raises SlicewiseError `bad_request`."""
    rows = {".csv": _csv, ".jsonl": _json_lines}.get(path.suffix.lower())
    if rows is None:
        raise bad("requests.trace", f"{path.name} must end in .csv or .jsonl")
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            found = list(rows(path.name, file))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise bad("requests.trace", f"{path} cannot be read ({error}); give a UTF-8 file") from error
    for number, (_, item) in enumerate(found, 1):
        if isinstance(item, dict):
            item.setdefault("id", f"r{number}")
    return found


def _json_lines(name: str, lines: Iterator[str]) -> Iterator[tuple[str, Any]]:
    for number, line in enumerate(lines, 1):
        if line.strip():
            field = f"{name}:{number}"
            try:
                yield field, parse_document(line)
            except SlicewiseError as error:
                raise SlicewiseError(error.code, f"{field}: {error.message}") from error


def _csv(name: str, lines: Iterator[str]) -> Iterator[tuple[str, Any]]:
    reader = csv.reader(lines, strict=True)
    columns = next(reader, [])
    for column in columns:
        if columns.count(column) > 1:
            raise bad(f"{name}:1", f"{column}: is the name of two columns; keep one of them")
    for row in reader:
        if not row:
            continue
        field = f"{name}:{reader.line_num}"
        if len(row) != len(columns):
            raise bad(field, f"has {len(row)} cells where the first line has {len(columns)}; give as many")
        cells = {column: cell for column, cell in zip(columns, row, strict=True) if cell}
        yield field, {column: cell if column in _NAMES else scalar(cell) for column, cell in cells.items()}
