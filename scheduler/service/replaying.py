"""`python -m scheduler.service.replaying FILE`: hand a recording's events to a fresh core and compare what it says.

The same events must give the same instructions, in whatever process and whenever; where they do not, the core
depends on something that is no event, and that is a mistake in it.
"""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from proto.types.errors import SlicewiseError
from proto.types.models import Model
from scheduler.core import events as ev
from scheduler.core.core import SchedulerCore
from scheduler.core.estimates import Profiles
from scheduler.core.policies.registry import make_policy
from scheduler.core.tuning import Tuning
from scheduler.service.profile_records import read_profile
from scheduler.service.recording import MARK, VERSION, failed, spoken

_EVENTS: dict[str, type[ev.Event]] = {kind.__name__: kind for kind in ev.Event.__subclasses__()}
_ADAPTERS: dict[str, TypeAdapter[ev.Event]] = {}  # made when first needed


@dataclass(frozen=True, slots=True)
class Difference:
    """The first event that was answered otherwise; `line` counts from 1."""

    line: int
    event: str
    recorded: list[Any]
    replayed: list[Any]


@dataclass(frozen=True, slots=True)
class Replayed:
    """How much was the same."""

    events: int
    instructions: int
    difference: Difference | None = None


@dataclass(slots=True)
class _Told:
    """An event of the recording with its answer."""

    line: int
    name: str
    event: ev.Event
    said: list[Any]


def replay(lines: Iterable[str]) -> Replayed:
    """Tell a fresh core all events; ends at the first difference. Raises SlicewiseError `bad_request`."""
    numbered = enumerate(lines, 1)
    header = _header(next(numbered, (1, ""))[1])
    profiles, numbers = Profiles(), itertools.count(1)
    core = SchedulerCore(
        make_policy(header["policy"]),
        profiles,
        TypeAdapter(Tuning).validate_python(header["tuning"]),
        make_id=lambda: f"{header['epoch']}-{next(numbers)}",
        learn=profiles,
    )
    events = instructions = 0
    for told in _read(numbered, profiles):
        try:
            said = spoken(core.handle(told.event))
        except Exception as error:  # as it did when it was recorded, or it is a difference
            said = failed(error)
        if said != told.said:
            return Replayed(events, instructions, Difference(told.line, told.name, told.said, said))
        events += 1
        instructions += len(said)
    return Replayed(events, instructions)


def read_events(lines: Iterable[str]) -> Iterator[tuple[ev.Event, list[Any]]]:
    """The events of a recording with what was said to each, for those who want to know what happened."""
    numbered = enumerate(lines, 1)
    _header(next(numbered, (1, ""))[1])
    for told in _read(numbered, Profiles()):
        yield told.event, told.said


def _header(line: str) -> dict[str, Any]:
    try:
        header = json.loads(line)
    except ValueError:
        header = None
    if not isinstance(header, dict) or header.get(MARK) != VERSION:
        raise SlicewiseError("bad_request", f"1: is no header of a recording; {MARK} must be {VERSION}.")
    return header


def _read(numbered: Iterator[tuple[int, str]], profiles: Profiles) -> Iterator[_Told]:
    """Events with their answers; what the estimates learned in between is told them when it is its turn."""
    told: _Told | None = None
    for number, text in numbered:
        if not text.endswith("\n"):
            break  # cut by a crash
        row = json.loads(text)
        if row[0] == "said" and told is not None:
            told.said = row[1]
            continue
        if told is not None:
            yield told
            told = None
        if row[0] == "event":
            told = _Told(number, row[1], _event(number, row[1], row[2]), [])
        elif row[0] == "learned":
            _learn(profiles, row[1], row[2])
    if told is not None:
        yield told


def _event(number: int, name: str, given: dict[str, Any]) -> ev.Event:
    if name == ev.PolicySet.__name__:
        return ev.PolicySet(int(given["now_ns"]), make_policy(given["policy"]))
    if name not in _EVENTS:
        raise SlicewiseError("bad_request", f"{number}: {name!r} is no event of this version.")
    try:
        return _adapter(name).validate_python(given)
    except ValidationError as error:
        raise SlicewiseError("bad_request", f"{number}: {name} cannot be read ({error.errors()[0]['msg']}).") from error


def _adapter(name: str) -> TypeAdapter[ev.Event]:
    if name not in _ADAPTERS:
        _ADAPTERS[name] = TypeAdapter(_EVENTS[name])
    return _ADAPTERS[name]


def _learn(profiles: Profiles, method: str, given: list[Any]) -> None:
    if method == "restore":
        profiles.restore(read_profile(given[0]["worker"], given[0]))
    elif method == "learn_model":
        profiles.learn_model(TypeAdapter(Model).validate_python(given[0]), given[1])
    elif method == "learn_held":
        profiles.learn_held(*given)
    elif method == "learn_invocation":
        profiles.learn_invocation(*given)
    elif method == "forget":
        profiles.forget(*given)


def main(arguments: list[str]) -> int:
    """Exit status: 0 when all was the same, 1 with the first difference, 2 for a file that cannot be read."""
    if len(arguments) != 1:
        print("usage: python -m scheduler.service.replaying FILE", file=sys.stderr)
        return 2
    try:
        with Path(arguments[0]).open(encoding="utf-8") as file:
            done = replay(file)
    except (OSError, ValueError, SlicewiseError) as error:
        print(f"{arguments[0]}: {error}", file=sys.stderr)
        return 2
    print(f"{done.events} events gave the same {done.instructions} instructions.")
    if done.difference is None:
        return 0
    found = done.difference
    print(f"Line {found.line}, {found.event}:")
    print(f"recorded {json.dumps(found.recorded)}\nreplayed {json.dumps(found.replayed)}")
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
