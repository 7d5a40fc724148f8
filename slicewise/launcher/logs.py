"""The services' log files: bounded, and read from their end."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

MAX_BYTES = 8 * 1024 * 1024
KEPT = 2
_TAIL_BYTES = 16 * 1024


def rotate(path: Path, max_bytes: int = MAX_BYTES) -> bool:
    """Keep the file below its bound; whether anything was done.

    The service keeps its descriptor, so the content is copied away and the file emptied. It writes
    in append mode; a line written in between is lost, which a log can bear.
    """
    try:
        if path.stat().st_size < max_bytes:
            return False
        for number in range(KEPT, 1, -1):
            older = path.with_name(f"{path.name}.{number - 1}")
            if older.exists():
                older.replace(path.with_name(f"{path.name}.{number}"))
        shutil.copyfile(path, path.with_name(f"{path.name}.1"))
        os.truncate(path, 0)
    except OSError:
        return False
    return True


def tail(path: Path, lines: int = 2) -> list[str]:
    """The last lines for people, each once: of JSON lines the messages of warnings and errors only."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL_BYTES))
            text = file.read().decode(errors="replace")
    except OSError:
        return []
    words = [word for word in map(_message, text.splitlines()) if word.strip()]
    return [word for index, word in enumerate(words) if word not in words[index + 1 :]][-lines:]


def _message(line: str) -> str:
    try:
        record = json.loads(line)
        if str(record.get("level", "")).upper() in ("DEBUG", "INFO"):
            return ""
        message = record.get("message") or record.get("msg") or line
        detail = str(record.get("exc_info", "")).strip().rpartition("\n")[2]
    except (ValueError, AttributeError):
        return line
    return f"{message} ({detail})" if detail else str(message)
