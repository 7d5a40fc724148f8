"""What a GPU manager can be told."""

from __future__ import annotations

import sys
from pathlib import Path

from pydantic import Field

from proto.wire.settings import ServiceSettings


class GpuManagerSettings(ServiceSettings):
    """The common keys, and those of a node with slices. `listen` serves control, Door.Exchange and Pull."""

    node: str = Field(pattern=r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$", max_length=63)
    """Name of this node; slices are called NODE-s0, NODE-s1 ..."""
    listen: str = "127.0.0.1:9004"
    advertise: str = ""
    """host:port under which other nodes reach `listen`; empty: `listen` itself."""
    door_path: Path
    """The data door's Unix socket."""
    scheduler: str = ""
    """host:port of the scheduler; empty: bindings come with their calls only."""
    cache_manager: str = ""
    """host:port of the cache manager; empty: a load that needs room fails."""
    slices: str = ""
    """CPU slices, as "2x1g:512MiB,1x2g:1GiB"."""
    emulate: Path | None = None
    """A scenario file whose slices and models are emulated."""
    time_scale: float = Field(default=1.0, gt=0)
    """What a scenario's seconds are multiplied with."""
    images_dir: Path | None = None
    """Where environments lie; the workers' sys.path comes from there."""
    zygotes: list[str] = Field(default_factory=lambda: [sys.executable], min_length=1)
    """Python interpreters that workers are forked from, each with a torch."""
    hide: list[Path] = Field(default_factory=list)
    """Folders of which workers see nothing but what they are given, beside those above."""
    zygotes_at_start: bool = True
    """Start zygotes at once; false: at the first load."""
    max_payload_bytes: int = Field(default=256 << 20, gt=0)
    max_waiting: int = Field(default=1024, gt=0)
    """Calls that may wait on one slice."""
    load_timeout_s: float = Field(default=120.0, gt=0)
    """A model that has not loaded after so long is given up."""
    collect_grace_s: float = Field(default=60.0, ge=0)
    """How long a package is kept after its upload though no deployed function refers to it yet."""
    metrics_listen: str = ""
    """host:port of /metrics; empty for none."""
