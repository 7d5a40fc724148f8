"""How long a slice waits for the next call of an invocation, and for the first call of a binding.

Two waits that must not be mixed up: `linger` keeps the *turn* (nobody else runs), so it is
milliseconds; `due` keeps the *worker* (nobody may evict it), so it may be seconds.
"""

from __future__ import annotations

from gpu_manager.core.events import Usual

MS = 1_000_000
LINGER_MIN_NS = 1 * MS
LINGER_MAX_NS = 20 * MS
LINGER_UNKNOWN_NS = 5 * MS  # nothing is known of the function yet
DUE_MIN_NS = 20 * MS  # a binding travels to the replica and its call back here
DUE_MAX_NS = 5_000 * MS
# Who waits longer for a worker's next call than it would take to load that worker again has waited for nothing.
DUE_LOADS = 2
DUE_UNKNOWN_NS = 500 * MS


def _clamp(value: int, low: int, high: int) -> int:
    return max(low, min(high, value))


def usual_reached(usual: Usual, calls: int) -> bool:
    """Whether an invocation that made `calls` calls has made as many as they usually do."""
    return usual.calls > 0 and calls >= round(usual.calls)


def linger_ns(usual: Usual) -> int:
    """How long an idle turn is kept: about twice the usual time between two calls."""
    if usual.calls <= 0:
        return LINGER_UNKNOWN_NS
    return _clamp(2 * usual.between_ns, LINGER_MIN_NS, LINGER_MAX_NS)


def due_ns(usual: Usual, calls: int, load_ns: int) -> int:
    """How long after its start, or its last call, a binding's next call is still to be waited for; 0: none is.

    `load_ns` (0: not known) bounds it. Without that bound an invocation whose time between two calls is the wait
    for another function on the same slice would keep that function out for twice as long every time.
    """
    if usual_reached(usual, calls):
        return 0
    longest = max(DUE_MIN_NS, min(DUE_MAX_NS, DUE_LOADS * load_ns)) if load_ns else DUE_MAX_NS
    if usual.calls <= 0:
        return min(DUE_UNKNOWN_NS, longest)
    return _clamp(2 * (usual.between_ns if calls else usual.gap_ns), DUE_MIN_NS, longest)
