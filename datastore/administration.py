"""What etcd's root user does: users and their rights once, and upkeep now and then.

Also a program, `python -m datastore.administration secure|tidy`, for the launcher: that one forks
services and must not carry gRPC's threads.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from functools import partial
from pathlib import Path

import grpc.aio
from etcd3aio.auth import PermissionType
from etcd3aio.errors import EtcdError
from etcd3aio.kv import prefix_range_end

from datastore import keys
from datastore.connection import Connection
from datastore.server import ROOT_USER, USER
from proto.types.errors import SlicewiseError

_ROLE = "slicewise"
# Fragmented space that is worth a pause of some milliseconds.
_DEFRAGMENT_BYTES = 16 * 1024 * 1024
_FIRST_WAIT_S = 0.05


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


def main() -> int:
    """Exit status 0 when done, 1 with one line on stderr otherwise."""
    parser = argparse.ArgumentParser(prog="python -m datastore.administration")
    parser.add_argument("what", choices=["secure", "tidy"])
    parser.add_argument("--address", required=True)
    parser.add_argument("--root-password-file", type=Path, required=True)
    parser.add_argument("--password-file", type=Path)
    parser.add_argument("--timeout-s", type=float, default=60.0)
    given = parser.parse_args()
    root_password = given.root_password_file.read_text().strip()
    try:
        if given.what == "tidy":
            asyncio.run(tidy(given.address, root_password))
        else:
            password = given.password_file.read_text().strip()
            asyncio.run(secure(given.address, root_password, password, given.timeout_s))
    except SlicewiseError as error:
        print(error.message, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
