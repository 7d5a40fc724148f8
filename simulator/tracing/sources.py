"""Trace files of every kind, by one name each, as calls in order of time from 0 on."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from proto.types.arrivals import Arrival
from proto.types.errors import SlicewiseError
from proto.wire import arrival_log
from proto.wire.fields import bad
from simulator.tracing import azure_functions, azure_llm
from simulator.tracing.azure_functions import MINUTE_NS
from simulator.tracing.azure_llm import Tokens
from simulator.tracing.shaping import Window, most_called

RECORDED, FUNCTIONS, LLM = KINDS = ("recorded", "azure-functions", "azure-llm")
MOST = 2_000_000  # calls; a scenario of more is no longer simulated in minutes


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to take: a window, the functions called most in it, and how tokens make batches."""

    window: Window
    functions: int | None = None
    tokens: Tokens = field(default_factory=Tokens)


@dataclass(frozen=True, slots=True)
class Taken:
    """Calls by time, their functions by popularity, and how many lines were cut by a crash."""

    arrivals: list[Arrival]
    functions: list[str]
    cut: int = 0


def sniff(path: Path) -> str:
    """The kind of a file, by its first line; raises SlicewiseError `bad_request`."""
    try:
        with path.open("rb") as file:
            first = file.readline(1 << 20)
    except OSError as error:
        raise _unreadable(path, error) from error
    if first.lstrip().startswith(b"{") and arrival_log.MARK.encode() in first:
        return RECORDED
    columns = first.decode("utf-8-sig", "replace").strip().split(",")
    if azure_functions.IDENTITY[0] in columns:
        return FUNCTIONS
    if azure_llm.COLUMNS[0] in columns:
        return LLM
    raise bad(f"{path.name}:1", f"is the first line of no kind of trace known here; say --kind {'|'.join(KINDS)}")


def read(path: Path, kind: str, wanted: Wanted, draw: Callable[[], float]) -> Taken:
    """The calls that are wanted; raises SlicewiseError `bad_request`."""
    try:
        if kind == RECORDED:
            return _recorded(path, wanted)
        with path.open(encoding="utf-8-sig", newline="") as file:
            if kind == LLM:
                return _since_the_first(azure_llm.arrivals(path.name, file, wanted.tokens), wanted)
            return _table(path.name, file, wanted, draw)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise _unreadable(path, error) from error


def _recorded(path: Path, wanted: Wanted) -> Taken:
    """A file that was moved on names its own, older part of the recording: that alone is read."""
    arrivals: list[Arrival] = []
    cut = 0
    for file in arrival_log.rotated(path) or [path]:
        found, broken = arrival_log.read_arrivals(file)
        arrivals += found
        cut += broken
    return replace(_since_the_first(arrivals, wanted), cut=cut)


def _since_the_first(arrivals: list[Arrival], wanted: Wanted) -> Taken:
    begin_ns = min((a.at_ns for a in arrivals), default=0)
    inside = wanted.window.cut(replace(a, at_ns=a.at_ns - begin_ns) for a in arrivals)
    functions = most_called(Counter(a.function for a in inside), wanted.functions)
    kept = set(functions)
    inside = [a for a in inside if a.function in kept]
    _check_many(len(inside))
    return Taken(inside, functions)


def _table(name: str, file: object, wanted: Wanted, draw: Callable[[], float]) -> Taken:
    window = wanted.window
    last = None if window.to_ns is None else -(-window.to_ns // MINUTE_NS)
    table = azure_functions.counts(name, file, window.from_ns // MINUTE_NS, last)  # type: ignore[arg-type]
    calls = azure_functions.totals(table)
    functions = most_called(calls, wanted.functions)
    _check_many(sum(calls[function] for function in functions))
    arrivals = window.cut(azure_functions.spread({function: table[function] for function in functions}, draw))
    there = {a.function for a in arrivals}
    return Taken(arrivals, [function for function in functions if function in there])


def _check_many(calls: int) -> None:
    if calls > MOST:
        raise bad("--to", f"the window has {calls} calls, more than {MOST}; make it shorter, or give --functions")


def _unreadable(path: Path, error: Exception) -> SlicewiseError:
    return bad("FILE", f"{path} cannot be read ({error}); give a UTF-8 file")
