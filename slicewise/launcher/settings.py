"""What `slicewise up` can be told: flags over environment (`SLICEWISE_UP_<KEY>`) over `--config FILE`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from proto.types.errors import SlicewiseError
from proto.wire.settings import LayeredSettings, layered

ENVIRONMENT_PREFIX = "SLICEWISE_UP_"
MAX_AGENTS = 16


class UpSettings(LayeredSettings):
    """One local platform. Each is a flag of `slicewise up` and a key of its file, with the same name."""

    slices: str = ""
    """CPU slices as COUNTxGPCSg:MEMORY, comma separated; empty: what NVML finds, else two CPU slices."""
    emulate: Path | None = None
    """A scenario file whose slices and models are emulated."""
    time_scale: float = Field(1.0, gt=0)
    """Factor on the emulated times: 0.1 runs ten times faster."""
    agents: int = Field(1, ge=1, le=MAX_AGENTS)
    """How many nodes to run as if on machines of their own."""
    host: str = "127.0.0.1"
    """The address that gateway and metrics listen on."""
    port: int = Field(8080, ge=0, le=65535)
    """The gateway's port; 0 takes any free one."""
    metrics_port: int = Field(8082, ge=0, le=65535)
    """The port of /metrics; 0 takes any free one."""
    policy: str = ""
    """The scheduling policy to start with; empty: the one that was set last, lalb at first."""
    login: bool = True
    """Store the gateway's credentials where faas-cli looks for them."""
    ready_timeout_s: float = Field(180.0, gt=0)
    """How long the platform may take to come up."""
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = "INFO"
    # Further keys for single services, as they stand in their own files.
    gateway: dict[str, Any] = Field(default_factory=dict)
    scheduler: dict[str, Any] = Field(default_factory=dict)
    cache_manager: dict[str, Any] = Field(default_factory=dict)
    gpu_manager: dict[str, Any] = Field(default_factory=dict)
    host_service: dict[str, Any] = Field(default_factory=dict)

    @property
    def nodes(self) -> tuple[str, ...]:
        """The nodes' names: `local`, or a, b, c ... when there are several."""
        if self.agents == 1:
            return ("local",)
        return tuple(chr(ord("a") + index) for index in range(self.agents))


def read_up_settings(flags: Mapping[str, Any], file: Path | None) -> UpSettings:
    """The settings; raises SlicewiseError `bad_request` with one line that names the key."""
    given = {name: value for name, value in flags.items() if value is not None}
    settings = layered(UpSettings, ENVIRONMENT_PREFIX, "`slicewise up`", given, file)
    if settings.emulate and settings.slices:
        raise SlicewiseError("bad_request", "slices: the slices of an emulation stand in its scenario file.")
    if settings.emulate and not settings.emulate.is_file():
        raise SlicewiseError("bad_request", f"emulate: there is no file {settings.emulate}.")
    return settings
