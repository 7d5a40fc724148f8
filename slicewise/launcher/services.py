"""Which processes make up a platform, how each is started, and what stands in its file.

The order is given by `after` (names that must be ready first) and `stop_rank` (lower ends earlier):
calls stop coming in before what serves them goes, and etcd goes last.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from datastore import server
from proto.wire.settings import write_yaml
from slicewise.launcher import issuing
from slicewise.launcher.layout import Layout
from slicewise.launcher.settings import UpSettings

ETCD = "etcd"
LOOPBACK = "127.0.0.1"


@dataclass(frozen=True)
class Service:
    """One process: its name (unique, also that of its log), command line, and place in the order."""

    name: str
    command: tuple[str, ...]
    after: tuple[str, ...] = ()
    stop_rank: int = 0
    prints_ready: bool = True
    folder: Path | None = None  # where it runs; None: where the launcher does


def port_names(settings: UpSettings) -> list[str]:
    """The addresses that a platform needs besides the gateway's own."""
    names = ["etcd", "scheduler", "scheduler-metrics", "cache_manager", "cache_manager-metrics"]
    for node in settings.nodes:
        names += [f"gpu_manager-{node}", f"gpu_manager-{node}-metrics", f"host-{node}"]
    return names


def plan(layout: Layout, settings: UpSettings, ports: Mapping[str, int]) -> list[Service]:
    """Every process of the platform, with its configuration file written and its folder made."""
    etcd = Service(
        ETCD,
        tuple(server.command(layout.etcd, ports["etcd"])),
        stop_rank=3,
        prints_ready=False,
        folder=layout.etcd,
    )
    scheduler, cache_manager = _at(ports["scheduler"]), _at(ports["cache_manager"])
    writer = _Writer(layout, settings, ports)
    services = [
        etcd,
        writer.service("cache_manager", {}, stop_rank=2),
        writer.service("scheduler", {"bindings_key": str(layout.keys / "bindings.key")}, after=(ETCD,), stop_rank=2),
    ]
    for node in settings.nodes:
        door = str(layout.run / f"door-{node}.sock")
        common: dict[str, Any] = {"node": node, "door_path": door, "images_dir": str(layout.images)}
        common |= {"scheduler": scheduler, "hide": [str(layout.root)]}
        devices: dict[str, Any] = {"slices": settings.slices} if settings.slices else {}
        if settings.emulate:
            devices = {"emulate": str(settings.emulate.absolute()), "time_scale": settings.time_scale}
        services += [
            writer.service(f"host-{node}", common, stop_rank=1),
            writer.service(f"gpu_manager-{node}", {**common, **devices, "cache_manager": cache_manager}, stop_rank=1),
        ]
    gateway = {
        "listen_http": f"{settings.host}:{ports['gateway']}",
        "metrics_listen": f"{settings.host}:{ports['metrics']}",
        "metrics_pages": [
            f"{name.removesuffix('-metrics')}=http://{_at(port)}/metrics"
            for name, port in ports.items()
            if name.endswith("-metrics")
        ],
        "hosts": [f"{node}={_at(ports[f'host-{node}'])}" for node in settings.nodes],
        "scheduler": scheduler,
        "replicas_key": str(layout.keys / "replicas.key"),
        "secrets_key": str(layout.keys / "secrets.key"),
        "secret_mount_path": str(layout.secrets),
    }
    services.append(writer.service("gateway", gateway, after=(ETCD,)))
    return services


_MODULES = {"host": "functions.service"}


class _Writer:
    """Writes each service's file: the common keys, its own, and what the user adds for its kind."""

    def __init__(self, layout: Layout, settings: UpSettings, ports: Mapping[str, int]) -> None:
        self._layout = layout
        self._settings = settings
        self._ports = ports

    def service(self, name: str, own: Mapping[str, Any], after: tuple[str, ...] = (), stop_rank: int = 0) -> Service:
        kind, _, node = name.partition("-")
        folder = self._layout.node(node, kind) if node else self._layout.service(kind)
        # Functions run under uids of their own and pass through to what is theirs.
        folder.mkdir(parents=True, exist_ok=True)
        values: dict[str, Any] = {
            "state_dir": str(folder),
            "trust": str(self._layout.trust),
            "credential": str(issuing.credential(self._layout, kind)),
            "etcd": _at(self._ports["etcd"]),
            "etcd_user": server.USER,
            "etcd_password_file": str(self._layout.keys / "etcd-password"),
            "log_level": self._settings.log_level,
        }
        if name in self._ports:
            values["listen"] = _at(self._ports[name])
        if f"{name}-metrics" in self._ports:
            values["metrics_listen"] = _at(self._ports[f"{name}-metrics"])
        extra = getattr(self._settings, "host_service" if kind == "host" else kind)
        file = self._layout.config / f"{name}.yaml"
        write_yaml(file, {**values, **own, **extra})
        module = _MODULES.get(kind, f"{kind}.service")
        return Service(name, (sys.executable, "-m", module, "--config", str(file)), after, stop_rank)


def _at(port: int) -> str:
    return f"{LOOPBACK}:{port}"
