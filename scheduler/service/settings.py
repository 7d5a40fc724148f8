"""What the scheduler can be told."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from pydantic import Field

from proto.wire.settings import ServiceSettings
from scheduler.core.tuning import LIVE, Tuning


class SchedulerSettings(ServiceSettings):
    """The common keys, the key that signs bindings, and the live core's parameters. Times are seconds."""

    listen: str = "127.0.0.1:9001"
    bindings_key: Path
    """The private key that signs bindings."""
    metrics_listen: str = ""
    """host:port of an HTTP server for Prometheus; empty or 0 for none."""
    policy: str = "lalb"
    """Policy of a platform on which none was ever set."""
    queue_limit: int = Field(LIVE.queue_limit, ge=1, le=1_000_000)
    """Requests that may wait unbound; the next one gets 429."""
    max_wait_s: float = Field(3600.0, gt=0)
    """How long a request without a deadline of its own may wait."""
    binding_ttl_s: float = Field(3600.0, gt=0)
    """When a binding expires: a guard against invocations that never end, not a limit of theirs."""
    ahead_limit_s: float = Field(LIVE.ahead_limit_ns / 1e9, ge=0, le=10)
    """How long before a slice is free the next call may be bound to it; 0 waits until it is."""
    stall_factor: float = Field(LIVE.stall_factor, ge=1)
    """Past this many estimates of a turn, what waits behind it goes elsewhere."""
    owner_grace_s: float = Field(LIVE.owner_grace_ns / 1e9, gt=0)
    """How long a gateway or broker whose stream broke keeps its bindings."""
    package_copies: int = Field(2, ge=1, le=64)
    """On how many nodes each model's package is kept, as far as there are so many; 1: it is lost with its node."""
    recent: int = Field(LIVE.recent, ge=1, le=100_000)
    """Placements whose reasons are kept, for `slicewise explain`; about 2 KB each."""
    record_events: Path | None = None
    """A file of all that the core is told and answers, from state_dir if not absolute; none: nothing is recorded."""
    record_events_mb: float = Field(256.0, gt=0, le=100_000)
    """Its bound, in 10^6 bytes; a full file is left as it is. The one of the last start is kept beside it."""

    def recording(self) -> Path | None:
        """The whole path of the file."""
        return self.state_dir / self.record_events if self.record_events is not None else None

    def tuning(self) -> Tuning:
        """The core's parameters."""
        return replace(
            LIVE,
            queue_limit=self.queue_limit,
            ahead_limit_ns=int(self.ahead_limit_s * 1e9),
            stall_factor=self.stall_factor,
            owner_grace_ns=int(self.owner_grace_s * 1e9),
            adopt_grace_ns=int(self.owner_grace_s * 1e9),
            recent=self.recent,
        )
