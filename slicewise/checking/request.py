"""What is asked of a check, and one answer of a handler, wherever it ran."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Request:
    """One check: which folder, and the request that its handler gets `calls` times. `timeout_s` is of one call."""

    directory: Path
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    calls: int = 5
    timeout_s: float = 60.0
    template: str = "python3-http"


@dataclass(frozen=True)
class Answer:
    """One answer: its caller's seconds, the answer's headers (lower case), and what the handler said on stderr."""

    status: int
    body: bytes
    seconds: float
    headers: Mapping[str, str] = field(default_factory=dict)
    said: str = ""
