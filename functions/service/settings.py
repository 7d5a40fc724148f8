"""The host's settings: flags over environment (`SLICEWISE_HOST_<KEY>`) over a YAML file."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from proto.wire.settings import ServiceSettings


class Settings(ServiceSettings):
    """One function host. Times are seconds, sizes bytes. It keeps no state in etcd."""

    node: str = Field("node-1", min_length=1)  # the name of this machine to the platform
    images_dir: Path
    scheduler: str = ""  # host:port; without it GPU functions cannot be bound late
    door_path: str = ""  # Unix socket of this node's data door
    address: str = "127.0.0.1"  # where brokers listen
    cache_manager: str = ""
    replica_start_timeout_s: float = Field(120.0, gt=0)
    backoff_first_s: float = Field(0.5, gt=0)
    backoff_limit_s: float = Field(30.0, gt=0)
    log_bytes: int = Field(8 * 1024 * 1024, ge=4096)  # of one replica, both files together
    hide: list[Path] = Field(default_factory=list)  # folders of which functions see nothing but what is theirs
    tmp_bytes: int = Field(1024 * 1024 * 1024, ge=1024 * 1024)  # of a replica's /tmp, which lies in memory
    max_processes: int = Field(512, ge=64)  # of a replica, threads counted
    memory_bytes: int = Field(0, ge=0)  # of a replica whose function names no memory limit; 0: all there is
    usage_interval_s: float = Field(5.0, gt=0)
    report_calls: bool = False  # brokers tell at /_/calls what models were called for, as `slicewise check` wants it
