"""When a GPU invocation is bound to a slice: before it reaches the function, or at its first model call.

Early binding overlaps the load with the handler's own preprocessing, but holds a place in the
slice's order until the first call comes. So it pays only where that call comes soon.
"""

from __future__ import annotations

from typing import Protocol

# A gap below this is noise beside the hops of an invocation, whatever the load takes.
SHORT_GAP_NS = 50_000_000


class WorkerHint(Protocol):
    """What the scheduler last said of a worker: its usual gap and load (nanoseconds), and what its policy needs."""

    @property
    def gap_ns(self) -> int:
        """From the start of an invocation to its first model call."""

    @property
    def load_ns(self) -> int:
        """From nothing to a worker that can run."""

    @property
    def known(self) -> bool:
        """False before the first call was seen."""

    @property
    def policy_needs_batch(self) -> bool:
        """Whether the policy cannot place a request of unknown batch size."""


def binds_early(hint: WorkerHint | None, batch: int) -> tuple[bool, str]:
    """Whether to bind now, and why; `batch` is 0 when the request does not say."""
    if hint is None or not hint.known:
        return False, "nothing is known of this function's calls yet"
    if hint.policy_needs_batch and batch <= 0:
        return False, "the policy needs a batch size and the request brings none"
    if hint.gap_ns > max(hint.load_ns, SHORT_GAP_NS):
        return False, "its first call usually comes too late after the request"
    return True, "its first call usually comes soon"
