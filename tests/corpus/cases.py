"""What a case of the corpus is: a function's folder, what it is called with, and what has to come back.

A folder holds what its author would publish (handler.py, or app.py and a Dockerfile), perhaps a `prepare.py` that
writes the weights, and `case.json`:

    covers    one line: what of published handlers this one stands for
    calls     the requests, one after the other:
                path, body     a string goes as it is, anything else as JSON
                expect         what is to come back, where that is known by construction; without it the answer is
                               that of the same handler in a process without Slicewise
                status         200 unless said
                refused        words of the error that has to come; such a call is not made without Slicewise
                late       the answer begins before a model is called, so that its headers cannot name a slice
                streamed       the answer has to come in chunks
                cpu            no model is called, so no slice is named
    models    how many models are registered in the end (1 unless said, null: not looked at)
    warm      the model was called before the first request, which is a hit then
    imports   large libraries that it imports
    server    "module:application" for a folder with a server of its own; its file if every answer is known
    no_gpu    without Slicewise torch.cuda says that there is no GPU, as it would (else it says one that is the CPU)
    rtol      relative tolerance of floats, where the precision is not float32's
    fails     why it does not work yet; the test is a strict xfail
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

FUNCTIONS = Path(__file__).parent / "functions"
CASE = "case.json"
PREPARE = "prepare.py"
# Of these words and the kind of value that each holds is a case made; another word is a mistake in the file.
_CASE = {"covers", "calls", "models", "warm", "imports", "server", "no_gpu", "rtol", "fails"}
_CALL = {"path", "body", "expect", "status", "refused", "late", "streamed", "cpu"}


@dataclass(frozen=True)
class Call:
    """One request and what is asked of its answer."""

    path: str = "/"
    body: Any = ""
    expect: Any = None
    status: int = 200
    refused: tuple[str, ...] = ()
    late: bool = False
    streamed: bool = False
    cpu: bool = False

    @property
    def payload(self) -> bytes:
        """The body's bytes."""
        return (self.body if isinstance(self.body, str) else json.dumps(self.body)).encode()

    @property
    def expected(self) -> bytes:
        """`expect` as a body."""
        return (self.expect if isinstance(self.expect, str) else json.dumps(self.expect)).encode()

    @property
    def content_type(self) -> str:
        """What the body is."""
        return "text/plain" if isinstance(self.body, str) else "application/json"


@dataclass(frozen=True)
class Case:
    """One function of the corpus."""

    name: str
    covers: str
    calls: tuple[Call, ...]
    models: int | None = 1
    warm: bool = False
    imports: tuple[str, ...] = ()
    server: str = ""
    no_gpu: bool = False
    rtol: float = 1e-4
    fails: str = ""
    folder: Path = field(default=FUNCTIONS)


def read() -> list[Case]:
    """All cases; those without large imports first, since they are ready first. Raises ValueError by folder."""
    cases = [_read(folder) for folder in sorted(FUNCTIONS.iterdir()) if (folder / CASE).is_file()]
    return sorted(cases, key=lambda case: (case.imports, case.name))


def _read(folder: Path) -> Case:
    said = json.loads((folder / CASE).read_text())
    calls = said.pop("calls")
    unknown = (said.keys() - _CASE) | {word for call in calls for word in call.keys() - _CALL}
    if unknown:
        raise ValueError(f"{folder.name}/{CASE}: {', '.join(sorted(unknown))}: no such word")
    made = tuple(Call(**{**call, "refused": tuple(call.get("refused", ()))}) for call in calls)
    said["imports"] = tuple(said.get("imports", ()))
    return Case(name=folder.name, calls=made, folder=folder, **said)
