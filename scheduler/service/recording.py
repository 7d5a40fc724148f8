"""What happened to the core of a running scheduler, written down so that it can be handed to another core.

Off unless `record_events` names a file. The file is JSON lines: a header, then in the order in which it happened

    {"slicewise_events": 1, "epoch": 7, "policy": {"name": "lalb", "o3_limit": 25}, "tuning": {...}}
    ["event", "Placed", {"now_ns": 12, ...}]            what the core was told
    ["said", [["Bind", {...}], ...]]                    what it answered (["raised", NAME]: it could not), if anything
    ["learned", "learn_invocation", ["f.ns@1", ...]]    what its estimates learned beside its events

Lines leave by the buffer, and to the disk twice a second; what a crash has cut is the last line. A file that is full
ends with a whole event. `scheduler.service.replaying` reads it.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from proto.types.errors import SlicewiseError
from proto.types.models import Model, Profile
from scheduler.core import events as ev
from scheduler.core.estimates import Profiles
from scheduler.core.instructions import Instruction
from scheduler.core.policies.base import Policy
from scheduler.core.tuning import Tuning
from scheduler.service.profile_records import write_profile

log = logging.getLogger(__name__)

MARK = "slicewise_events"
VERSION = 1
_BEGINNING = f'{{"{MARK}": '.encode()
_BUFFER_BYTES = 1 << 18


class Recorder:
    """Writes until `limit_bytes`; a disk that fails ends the recording, never the scheduler."""

    def __init__(self, path: Path, limit_bytes: int, epoch: int, policy: Policy, tuning: Tuning) -> None:
        """Begin a file; the one of the scheduler's earlier life becomes FILE.1. Raises SlicewiseError `bad_request`."""
        self._path = path
        self._left = limit_bytes
        self._ending = False  # this event was the last that had room
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            if path.exists():
                with path.open("rb") as file:
                    if file.read(len(_BEGINNING)) != _BEGINNING:
                        raise SlicewiseError("bad_request", f"record_events: {path} holds something else.")
                path.replace(path.with_name(f"{path.name}.1"))
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            self._file = os.fdopen(descriptor, "w", buffering=_BUFFER_BYTES, encoding="utf-8")
        except OSError as error:
            raise SlicewiseError("bad_request", f"record_events: cannot be written ({error}).") from error
        self._open = True
        self._write({MARK: VERSION, "epoch": epoch, "policy": dict(policy.parameters()), "tuning": asdict(tuning)})

    def event(self, event: ev.Event) -> None:
        """The core is about to be told this."""
        if self._open and self._left <= 0:
            log.warning("the recording %s is full", self._path)
            self.close()
        if self._open:
            self._write(["event", type(event).__name__, plain(event)])

    def said(self, instructions: Sequence[Instruction]) -> None:
        """It answered this."""
        if self._open and instructions:
            self._write(["said", spoken(instructions)])

    def raised(self, error: Exception) -> None:
        """It could not handle this."""
        if self._open:
            self._write(["said", failed(error)])

    def learned(self, method: str, *arguments: object) -> None:
        """The estimates were told this, outside of any event."""
        if self._open and self._left > 0:
            self._write(["learned", method, [plain(argument) for argument in arguments]])

    def flush(self) -> None:
        """What was written so far goes to the disk."""
        if self._open:
            self._guard(self._file.flush)

    def close(self) -> None:
        """No more is recorded."""
        if self._open:
            self._open = False
            self._guard(self._file.close)

    def _write(self, line: object) -> None:
        text = json.dumps(line) + "\n"
        self._left -= len(text)
        self._guard(lambda: self._file.write(text))

    def _guard(self, write: Any) -> None:
        try:
            write()
        except OSError as error:
            self._open = False
            log.error("nothing more is recorded in %s: %s", self._path, error)


class RecordedProfiles(Profiles):
    """Profiles that tell the recorder what they learn from others than the core."""

    recorder: Recorder | None = None

    def learn_model(self, model: Model, worker: str) -> None:
        """See Profiles."""
        self._note("learn_model", model, worker)
        super().learn_model(model, worker)

    def learn_held(self, worker: str, held_bytes: int) -> bool:
        """See Profiles."""
        self._note("learn_held", worker, held_bytes)
        return super().learn_held(worker, held_bytes)

    def learn_invocation(self, worker: str, gap_ns: int, between_ns: int, calls: int) -> None:
        """See Profiles."""
        self._note("learn_invocation", worker, gap_ns, between_ns, calls)
        super().learn_invocation(worker, gap_ns, between_ns, calls)

    def restore(self, profile: Profile) -> None:
        """See Profiles."""
        self._note("restore", write_profile(profile))
        super().restore(profile)

    def forget(self, worker: str) -> None:
        """See Profiles."""
        self._note("forget", worker)
        super().forget(worker)

    def _note(self, method: str, *arguments: object) -> None:
        if self.recorder is not None:
            self.recorder.learned(method, *arguments)


def spoken(instructions: Sequence[Instruction]) -> list[Any]:
    """Instructions as they stand in a recording."""
    return [[type(one).__name__, plain(one)] for one in instructions]


def failed(error: Exception) -> list[Any]:
    """What stands in a recording instead of instructions when an event could not be handled."""
    return [["raised", type(error).__name__]]


def plain(value: Any) -> Any:
    """What JSON can say of a dataclass and what is in it; the same for equal values in every process."""
    if isinstance(value, Policy):
        return dict(value.parameters())
    if isinstance(value, Enum):
        return value.value
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, frozenset | set):
        return sorted(plain(item) for item in value)
    if isinstance(value, tuple | list):
        return [plain(item) for item in value]
    return value
