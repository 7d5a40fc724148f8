"""How a failure looks to an HTTP client: plain text, one sentence, the status of the one table."""

from __future__ import annotations

import math
from dataclasses import dataclass

from proto.types.errors import SlicewiseError

INTERNAL_HEADER = "X-OpenFaaS-Internal"
CODE_HEADER = "X-Slicewise-Error"
_PLATFORM = "slicewise"
_DEFAULT_RETRY_AFTER_S = 1.0
REALM = 'Basic realm="Restricted"'


@dataclass(frozen=True)
class Answer:
    """An answer that the platform makes itself."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes


def answer(error: SlicewiseError) -> Answer:
    """The answer for `error`; 401, 429 and 503 bring the headers that clients act on."""
    status = error.status
    headers = [
        ("Content-Type", "text/plain; charset=utf-8"),
        (INTERNAL_HEADER, _PLATFORM),
        (CODE_HEADER, error.code),
    ]
    if status == 401:
        headers.append(("WWW-Authenticate", REALM))
    if status in (429, 503):
        wait_s = error.retry_after_s if error.retry_after_s else _DEFAULT_RETRY_AFTER_S
        # Retry-After is whole seconds; rounding down would bring the client back too early.
        headers.append(("Retry-After", str(max(1, math.ceil(wait_s)))))
    # The text of a 401 is compared by clients; everything else ends its line for people with a terminal.
    body = error.message if status == 401 else error.message + "\n"
    return Answer(status, tuple(headers), body.encode())


def not_yet(what: str) -> SlicewiseError:
    """The 501 of something that OpenFaaS has and this platform does not (yet)."""
    return SlicewiseError("not_implemented", f"{what} is not available on this platform yet.")
