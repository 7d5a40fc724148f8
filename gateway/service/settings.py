"""The gateway's settings: flags over environment (`SLICEWISE_GATEWAY_<KEY>`) over a YAML file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field
from pydantic_settings import NoDecode

from gateway.core import durations
from gateway.core.names import Namespaces
from proto.types.identity import DEFAULT_NAMESPACE
from proto.wire.settings import ServiceSettings

_MIB = 1024 * 1024


def _seconds(value: Any) -> Any:
    return durations.parse_ns(value) / 1e9 if isinstance(value, str) else value


def _list(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    return json.loads(value) if value.startswith("[") else [part.strip() for part in value.split(",") if part.strip()]


Seconds = Annotated[float, BeforeValidator(_seconds), Field(gt=0)]
Texts = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_list)]


class Settings(ServiceSettings):
    """Durations are seconds, written as Go durations or numbers; sizes are bytes. `listen` is not used."""

    # where to listen, and whom to talk to
    listen_http: str = "127.0.0.1:8080"
    metrics_listen: str = "127.0.0.1:8082"
    metrics_pages: Texts = ()  # metrics of other services to show on ours, too: NAME=URL
    hosts: Texts = ()  # function hosts: host:port, or NODE=host:port
    scheduler: str = ""
    # keys, and who may manage
    replicas_key: Path
    secrets_key: Path
    basic_auth: bool = True
    secret_mount_path: Path = Path("/run/secrets")
    # limits of time
    read_timeout: Seconds = 65.0  # a request's body must have arrived
    write_timeout: Seconds = 65.0  # a followed log ends
    upstream_timeout: Seconds = 60.0  # an invocation, from a ready replica to the last byte
    wake_timeout: Seconds = 100.0  # a call held while its function has no ready replica
    unreachable_timeout: Seconds = 20.0  # ready replicas refuse connections; a host that restarts is back sooner
    drain_timeout: Seconds = 60.0  # calls in flight of a deleted function
    keep_alive_timeout: Seconds = 75.0
    # limits of size and number
    max_header_bytes: int = Field(_MIB, ge=8192)
    max_body_bytes: int = Field(256 * _MIB, ge=1)  # of a GPU function's request
    max_management_body_bytes: int = Field(2 * _MIB, ge=1)
    spool_memory_bytes: int = Field(_MIB, ge=0)  # of one body; what is longer goes to a file
    spool_dir: Path | None = None  # default: state_dir/spool
    spool_dir_bytes: int = Field(1024 * _MIB, ge=0)  # of all bodies in files together
    max_in_flight: int = Field(1000, ge=1)  # calls of one function, waiting ones included
    max_waiting: int = Field(500, ge=1)  # calls of one function that wait for a replica
    management_threads: int = Field(8, ge=1)
    # what came in when, for `slicewise trace`
    record_arrivals: Path | None = None  # a file, from state_dir if not absolute; none: nothing is recorded
    record_bytes: int = Field(64 * _MIB, ge=4096)  # of one file, about a million calls
    record_files: int = Field(4, ge=1)  # the current one and those before it; the oldest goes
    # functions
    function_namespace: str = DEFAULT_NAMESPACE
    namespaces: Texts = ()
    uid_first: int = Field(20_000, ge=1)
    uid_count: int = Field(10_000, ge=1)

    @property
    def spool_folder(self) -> Path:
        """Where long bodies go."""
        return self.spool_dir or self.state_dir / "spool"

    @property
    def arrivals_file(self) -> Path | None:
        """Where arrivals are recorded."""
        return self.state_dir / self.record_arrivals if self.record_arrivals is not None else None

    @property
    def metrics_page_urls(self) -> dict[str, str]:
        """Name -> URL."""
        return {name: url for name, _, url in (page.partition("=") for page in self.metrics_pages)}

    @property
    def known_namespaces(self) -> Namespaces:
        """The default namespace and the others."""
        return Namespaces(self.function_namespace, tuple(dict.fromkeys((self.function_namespace, *self.namespaces))))
