"""A policy under the platform's own rules: `ahead_s` and `overlap_load` beside its other parameters.

Without them a scenario runs by the papers' rules, as the contract of scenarios says.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from proto.types.errors import SlicewiseError
from proto.wire import fields
from scheduler.core.policies.base import Decision, Parameter, Policy
from scheduler.core.policies.registry import make_policy
from scheduler.core.state import State

AHEAD = "ahead_s"
OVERLAP = "overlap_load"
_MOST_AHEAD_S = 10.0  # as of the scheduler's setting


class AsLive(Policy):
    """Decides as `inner` does; the engine reads the other two."""

    name = "live"

    def __init__(self, inner: Policy, ahead_ns: int, overlap_load: bool) -> None:
        self.inner = inner
        self.ahead_ns = ahead_ns
        self.overlap_load = overlap_load

    def decide(self, state: State) -> Decision | None:
        """See Policy."""
        return self.inner.decide(state)

    def parameters(self) -> dict[str, Parameter]:
        """The inner policy's, and the two."""
        return {**self.inner.parameters(), AHEAD: self.ahead_ns / 1e9, OVERLAP: self.overlap_load}


def make_scenario_policy(wish: Any) -> Policy:
    """The policy of `{"name", parameters}`; AsLive when `ahead_s` is above 0 or `overlap_load` true.

    Raises SlicewiseError `bad_policy`, naming the field at fault.
    """
    if not isinstance(wish, Mapping):
        return make_policy(wish)
    rest = {key: value for key, value in wish.items() if key not in (AHEAD, OVERLAP)}
    inner = make_policy(rest)
    try:
        ahead_s = fields.number(wish.get(AHEAD, 0.0), AHEAD, least=0)
        overlap_load = fields.boolean(wish.get(OVERLAP, False), OVERLAP)
        ahead_ns = fields.nanoseconds(ahead_s, AHEAD)
    except SlicewiseError as error:
        raise SlicewiseError("bad_policy", error.message) from error
    if ahead_s > _MOST_AHEAD_S:
        raise SlicewiseError("bad_policy", f"{AHEAD}: {ahead_s!r} is more than {_MOST_AHEAD_S:g}.")
    return AsLive(inner, ahead_ns, overlap_load) if ahead_ns or overlap_load else inner
