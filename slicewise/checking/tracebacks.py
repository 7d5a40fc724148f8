"""Tracebacks in what a handler printed, down to what its author can do something about: lines of the author's files."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

_BEGIN = "Traceback (most recent call last):"
_CHAINED = (
    "During handling of the above exception, another exception occurred:",
    "The above exception was the direct cause of the following exception:",
)
_FRAME = re.compile(r'^\s+File "(?P<file>.+)", line (?P<line>\d+)(?:, in (?P<function>.+))?$')
# `package.Error: text`, `Error`; a line of the handler's own output is taken for none of these.
_EXCEPTION = re.compile(r"^(?P<kind>[A-Za-z_][\w.]*)(?:: (?P<text>.*))?$")
_MORE_LINES = 6  # of an exception's text


@dataclass(frozen=True)
class Frame:
    """One line of a file; `file` is relative to the handler's folder for its own files. `on_slice`: it ran there."""

    file: str
    line: int
    function: str
    code: str
    own: bool
    on_slice: bool = False


@dataclass
class Raised:
    """One exception: `kind` as Python prints it (module and class), its text, all frames, and what it came from."""

    kind: str
    text: str
    frames: list[Frame] = field(default_factory=list)
    cause: Raised | None = None

    @property
    def own_frames(self) -> list[Frame]:
        """Those in the handler's files, then how it went on in them on the slice; of its causes if it has none."""
        found: list[Frame] = []
        raised: Raised | None = self
        while raised is not None:
            own = [frame for frame in raised.frames if frame.own]
            found += [frame for frame in own if frame.on_slice] if found else own
            raised = raised.cause
        return found


def find(text: str, folder: Path) -> list[Raised]:
    """The exceptions in `text`, each with its causes, in order; files below `folder` are the handler's own."""
    found: list[Raised] = []
    lines = text.splitlines()
    chained = False
    index = 0
    while index < len(lines):
        line = lines[index].strip()
        if line in _CHAINED:
            chained = True
        elif lines[index].endswith(_BEGIN):
            raised, index = _one(lines, index + 1, folder)
            if raised is not None:
                if chained and found:
                    raised.cause = found.pop()
                found.append(raised)
                chained = False
            continue
        index += 1
    return found


def _one(lines: list[str], index: int, folder: Path) -> tuple[Raised | None, int]:
    """The exception whose frames begin at `index`, and where to go on."""
    frames: list[Frame] = []
    while index < len(lines) and (lines[index].startswith(" ") or not lines[index].strip()):
        match = _FRAME.match(lines[index])
        index += 1
        if match is None:
            continue
        code = ""
        if index < len(lines) and lines[index].startswith("    ") and not _FRAME.match(lines[index]):
            code = lines[index].strip()
        frames.append(_frame(match, code, folder))
    match = _EXCEPTION.match(lines[index]) if index < len(lines) else None
    if match is None:
        return None, index
    words = [match["text"] or ""]
    index += 1
    while index < len(lines) and len(words) < _MORE_LINES and _continues(lines[index]):
        words.append(lines[index].rstrip())
        index += 1
    return Raised(match["kind"], "\n".join(words).strip(), frames), index


def _continues(line: str) -> bool:
    return bool(line.strip()) and not line.endswith(_BEGIN) and not line.startswith("[slicewise:")


def _frame(match: re.Match[str], code: str, folder: Path) -> Frame:
    path = Path(match["file"])
    # A worker has the handler's sources from its package, by their names alone.
    on_slice = not path.is_absolute() and (folder / path).is_file()
    own = on_slice or (path.is_relative_to(folder) and "site-packages" not in path.parts)
    file = str(path.relative_to(folder)) if own and not on_slice else str(path)
    return Frame(file, int(match["line"]), match["function"] or "", code, own, on_slice)
