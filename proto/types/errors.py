"""The one table from what went wrong to what the caller is told.

An error is a code and one sentence that a user can act on. Services raise `SlicewiseError`, wires
carry `code` and `message`, and the gateway looks the status up here; no other file knows a status.
"""

from __future__ import annotations

from dataclasses import dataclass

STATUS: dict[str, int] = {
    # the request is wrong
    "bad_request": 400,
    "bad_function": 400,
    "bad_image": 400,
    "bad_namespace": 400,
    "bad_policy": 400,
    "bad_secret": 400,
    "body_cut": 400,
    "unauthorised": 401,
    "forbidden": 403,
    "not_found": 404,
    "method_not_allowed": 405,
    "exists": 409,
    "conflict": 409,
    "body_too_large": 413,
    "headers_too_large": 431,
    "unprocessable": 422,
    # there is no room now
    "queue_full": 429,
    "inflight_full": 429,
    # the function or what serves it failed
    "function_failed": 500,
    "model_failed": 500,
    "internal": 500,
    "not_implemented": 501,
    "worker_died": 502,
    "function_died": 502,
    "slice_lost": 502,
    "bad_digest": 502,
    "model_too_large": 507,
    "disk_full": 507,
    "not_ready": 503,
    "no_slice": 503,
    "unavailable": 503,
    # a limit passed; the code says which
    "deadline_in_queue": 504,
    "deadline_in_load": 504,
    "deadline_in_call": 504,
    "deadline_in_start": 504,
    "deadline_exec": 504,
    "deadline_upstream": 504,
}

# A call that met one of these before anything was returned or changed may be tried on another slice.
REPEATABLE = frozenset({"worker_died", "slice_lost", "no_slice", "binding_gone", "stale_epoch"})


@dataclass(eq=False)
class SlicewiseError(Exception):
    """A failure that a user can act on: `code` is a key of STATUS, `message` one sentence."""

    code: str
    message: str
    retry_after_s: float | None = None

    def __str__(self) -> str:
        return self.message

    @property
    def status(self) -> int:
        """The HTTP status the caller gets; an unknown code is our own fault, hence 500."""
        return STATUS.get(self.code, 500)
