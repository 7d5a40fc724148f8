"""What differs between the papers' scheduler and the live one, as parameters of one core.

`PAPER` is the published algorithm to the letter: a slice is idle when it has nothing bound, a bound
request starts the moment its slice is free, nobody goes away. `LIVE` adds what a real platform needs.
"""

from __future__ import annotations

from dataclasses import dataclass

MS = 1_000_000
S = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Tuning:
    """Parameters of the core beside the policy's own. Times are nanoseconds, 0 turns a part off."""

    queue_limit: int = 0  # requests that may wait unbound; 0: no limit
    local_limit: int = 0  # bindings that may wait at one slice where a policy binds at arrival; 0: no limit
    # Sizes that differ by no more are equal: what a scenario's decimal sizes lose on their way to whole bytes.
    equal_bytes: int = 0
    # A binding whose Infer has not come occupies its slice until its expected end only, and the end
    # counts the usual gap to the first call. False: a request occupies its slice from the binding on.
    gaps: bool = False
    # A load runs beside the handler's preprocessing and beside the turns of workers that are there already.
    overlap_load: bool = False
    # A slice counts as idle that will be free within its hand-over time (kept within these two) plus the gap.
    ahead_floor_ns: int = 0
    ahead_limit_ns: int = 0
    raise_overruns: bool = False  # what has run beyond the estimate counts again
    stall_factor: float = 0.0  # past this many estimates, what waits at the slice is taken back
    stall_floor_ns: int = 0  # but never before this
    keep: bool = False  # tell the slice what is queued before a load that must evict
    start_grace_ns: int = 0  # after the start: slices may yet appear, so nothing is refused for want of one
    report_stale_ns: int = 0  # a slice that has not reported for this long is lost
    unseen_grace_ns: int = 0  # how long a binding may be missing from its slice's reports after it was made
    settle_ns: int = 0  # how long a report may contradict an event before it is believed: the event may be under way
    node_grace_ns: int = 0  # how long a node's stream may be away before its bindings are given up
    forget_ns: int = 0  # how long a lost slice is still expected back
    owner_grace_ns: int = 0  # how long an owner whose stream broke keeps its bindings
    adopt_grace_ns: int = 0  # how long a binding found in a report may stay without an owner
    recent: int = 1000  # placements whose reasons are kept


PAPER = Tuning()

LIVE = Tuning(
    queue_limit=1000,
    local_limit=100,  # beyond, calls wait unbound, where the queue's limit and every free slice are open to them
    gaps=True,
    overlap_load=True,
    ahead_floor_ns=2 * MS,  # a hop to the gateway and one to the door; below this the slice would idle between turns
    ahead_limit_ns=50 * MS,  # binding earlier than this would be guessing, not hiding a hand-over
    raise_overruns=True,
    stall_factor=5.0,
    stall_floor_ns=1 * S,  # garbage collections and page faults are no stalls
    keep=True,
    start_grace_ns=3 * S,
    report_stale_ns=5 * S,  # five missed reports
    unseen_grace_ns=2 * S,
    settle_ns=200 * MS,  # reports and events of a node take the same stream, but are not made at the same moment
    node_grace_ns=1 * S,
    forget_ns=30 * S,
    owner_grace_ns=10 * S,
    adopt_grace_ns=10 * S,
)
