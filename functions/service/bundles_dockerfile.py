"""The few lines of a Dockerfile that mean something here: LABEL, ENV, and CMD where it starts a server.

People who come from OpenFaaS put the GPU flag, `fprocess` and their limits there. An image without the
watchdog starts its server by CMD; that counts once ENV says where it listens (`upstream_url`). Nothing
else of a Dockerfile is run: a bundle has no layers, its packages come from requirements.txt.
"""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import dataclass, field
from pathlib import Path

from proto.types.errors import SlicewiseError

# They would change what runs; everything else only describes the image or fills its layers.
_NOT_DONE = ("RUN", "CMD", "ENTRYPOINT", "ADD", "USER", "WORKDIR", "SHELL", "VOLUME")
_WATCHDOGS = ("fwatchdog", "of-watchdog")
_VARIABLE = re.compile(r"\$(?:\{([A-Za-z_]\w*)\}|([A-Za-z_]\w*))")


@dataclass
class Dockerfile:
    """Labels and environment as written; the watchdog's own variables stand apart."""

    labels: dict[str, str] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)
    fprocess: str = ""
    upstream_url: str = ""
    mode: str = ""
    ignored: list[str] = field(default_factory=list)  # "INSTRUCTION (line N)" of what is not carried out


def read_dockerfile(path: Path) -> Dockerfile:
    """Read the file, or nothing if there is none; raises SlicewiseError `bad_image` naming the line."""
    if not path.is_file():
        return Dockerfile()
    found = Dockerfile()
    command, command_line = "", 0
    try:
        text = path.read_text()
    except UnicodeDecodeError as error:
        raise SlicewiseError("bad_image", "The Dockerfile is not UTF-8 text.") from error
    for number, instruction, rest in _instructions(text):
        if instruction == "LABEL":
            found.labels.update(_pairs(number, instruction, rest))
        elif instruction == "ENV":
            for key, value in _pairs(number, instruction, rest).items():
                found.environment[key] = _expand(value, found.environment)
        elif instruction == "CMD" and _command(rest):
            command, command_line = _command(rest), number
        elif instruction in _NOT_DONE:
            found.ignored.append(f"{instruction} (line {number})")
    environment = found.environment
    found.fprocess = environment.pop("function_process", "") or environment.pop("fprocess", "")
    environment.pop("fprocess", None)
    found.upstream_url = environment.pop("http_upstream_url", "") or environment.pop("upstream_url", "")
    environment.pop("upstream_url", None)
    found.mode = environment.pop("mode", "")
    if command and found.upstream_url and not found.fprocess:
        found.fprocess, found.mode = command, found.mode or "http"
    elif command:
        found.ignored.append(f"CMD (line {command_line})")
    return found


def _command(rest: str) -> str:
    """What a CMD starts, as one line of words; "" for a watchdog, which starts what `fprocess` says."""
    try:
        words = json.loads(rest) if rest.startswith("[") else shlex.split(rest)
    except ValueError:
        return ""
    if not isinstance(words, list) or not words or not all(isinstance(word, str) for word in words):
        return ""
    return "" if words[0].rpartition("/")[2] in _WATCHDOGS else shlex.join(words)


def _instructions(text: str) -> list[tuple[int, str, str]]:
    """(line number, INSTRUCTION, rest), continued lines joined, comments left out."""
    found: list[tuple[int, str, str]] = []
    start, pending = 0, ""
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("#") or not line.strip():
            continue
        start = start or number
        if line.rstrip().endswith("\\"):
            pending += line.rstrip()[:-1] + " "
            continue
        word, _, rest = (pending + line).strip().partition(" ")
        found.append((start, word.upper(), rest.strip()))
        start, pending = 0, ""
    if pending.strip():
        word, _, rest = pending.strip().partition(" ")
        found.append((start, word.upper(), rest.strip()))
    return found


def _pairs(number: int, instruction: str, rest: str) -> dict[str, str]:
    try:
        words = shlex.split(rest)
    except ValueError as error:
        text = f"Dockerfile line {number}: {instruction} has an unclosed quote."
        raise SlicewiseError("bad_image", text) from error
    if words and "=" not in words[0]:  # the old form: ENV key the rest is the value
        key, _, value = rest.partition(" ")
        if not value.strip():
            raise SlicewiseError("bad_image", f"Dockerfile line {number}: {instruction} {key} has no value.")
        return {key: value.strip()}
    pairs = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or not key:
            text = f"Dockerfile line {number}: {instruction} needs key=value, found {word!r}."
            raise SlicewiseError("bad_image", text)
        pairs[key] = value
    if not pairs:
        raise SlicewiseError("bad_image", f"Dockerfile line {number}: {instruction} names nothing.")
    return pairs


def _expand(value: str, known: dict[str, str]) -> str:
    """$NAME and ${NAME} of earlier ENV lines; what is not known stays as written ($PORT is the host's to fill)."""
    return _VARIABLE.sub(lambda match: known.get(match[1] or match[2], match[0]), value)
