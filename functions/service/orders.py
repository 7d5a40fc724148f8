"""What the host tells a zygote to fork, and how the two carry it.

An order goes through a memfd beside the frame: environments and secrets may be larger than a frame, and
nothing of them should lie on a disk or in a command line.
"""

from __future__ import annotations

import base64
import json
import os
from dataclasses import asdict, dataclass, field
from typing import Any

from functions.service.confine import Confinement


@dataclass(frozen=True)
class FunctionOrder:
    """Start one function process.

    `listen` is the Unix socket of the template ("" when `command` is exec'd instead). `path` goes first
    on sys.path; `hide` are entries that only the platform needs. `tmp_bytes`, `hide_folders` and `groups` are
    the Confinement's.
    """

    name: str
    uid: int
    tmp: str
    cwd: str
    environment: dict[str, str]
    secrets: dict[str, bytes] = field(default_factory=dict)
    reach: list[str] = field(default_factory=list)
    template: str = ""
    handler: str = ""
    listen: str = ""
    command: list[str] = field(default_factory=list)
    gpu: bool = False
    threads: int = 32
    exec_timeout_s: float = 0.0
    path: list[str] = field(default_factory=list)
    hide: list[str] = field(default_factory=list)
    hide_folders: list[str] = field(default_factory=list)
    tmp_bytes: int = 0
    groups: list[str] = field(default_factory=list)

    @property
    def confinement(self) -> Confinement:
        """The part that the kernel enforces."""
        return Confinement(self.uid, self.tmp, self.reach, self.secrets, self.tmp_bytes, self.hide_folders, self.groups)


@dataclass(frozen=True)
class BrokerOrder:
    """Start one broker. Times are seconds; `upstream_socket` or `upstream_host` and `upstream_port` is set."""

    replica: str
    namespace: str
    function: str
    revision: str
    uid: int
    gpu: bool
    credential: str
    scheduler: str
    node: str
    door_path: str
    environment_id: str
    address: str
    runtime_socket: str
    upstream_socket: str = ""
    upstream_host: str = ""
    upstream_port: int = 0
    ready_path: str = ""
    max_inflight: int = 0
    read_timeout_s: float = 30.0
    write_timeout_s: float = 30.0
    exec_timeout_s: float = 30.0
    start_timeout_s: float = 120.0
    report_calls: bool = False
    broker_uid: int = 0  # who the broker itself becomes; 0: stays who the host is
    tmp: str = ""
    reach: list[str] = field(default_factory=list)

    @property
    def confinement(self) -> Confinement:
        """A broker is no user's code, but it opens sockets in folders that are a user's: never as root."""
        return Confinement(self.broker_uid, self.tmp, self.reach)


def pack(order: FunctionOrder | BrokerOrder) -> int:
    """A memfd that holds the order; the caller closes it."""
    fields: dict[str, Any] = asdict(order)
    if isinstance(order, FunctionOrder):
        fields["secrets"] = {name: base64.b64encode(value).decode() for name, value in order.secrets.items()}
    descriptor = os.memfd_create("order", os.MFD_CLOEXEC)
    with os.fdopen(os.dup(descriptor), "wb") as file:
        file.write(json.dumps(fields).encode())
    return descriptor


def _unpack(descriptor: int) -> dict[str, Any]:
    size = os.fstat(descriptor).st_size
    fields: dict[str, Any] = json.loads(os.pread(descriptor, size, 0))
    return fields


def unpack_function(descriptor: int) -> FunctionOrder:
    """The inverse of `pack` for a function process."""
    fields = _unpack(descriptor)
    fields["secrets"] = {name: base64.b64decode(value) for name, value in fields["secrets"].items()}
    return FunctionOrder(**fields)


def unpack_broker(descriptor: int) -> BrokerOrder:
    """The inverse of `pack` for a broker."""
    return BrokerOrder(**_unpack(descriptor))
