"""What a freshly forked process does to itself before it runs anything that belongs to a user.

As root: a mount namespace of its own with a private /tmp of bounded size, its secrets in memory, the processes of
its own uid in /proc, and a way to the few folders it needs even where they lie below a closed or hidden directory; then
the function's uid for good. Without root only session, parent-death signal and limits remain, and the host says so at
start.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
from dataclasses import dataclass, field
from pathlib import Path

SECRETS = "/var/openfaas/secrets"

# All processes and threads of one function here, replicas and workers together; a replica's cgroup is tighter.
MAX_PROCESSES_OF_UID = 4096
# When memory is short a function goes before what serves the others.
OOM_SCORE = "500"
# Where everybody may write, and so could fill a disk or leave something for others to find.
_SHARED = ("/var/tmp", "/dev/shm", "/run/lock")

_CLONE_NEWNS, _CLONE_NEWIPC = 0x00020000, 0x08000000
_MS_RDONLY, _MS_NOSUID, _MS_NODEV, _MS_NOEXEC, _MS_REMOUNT = 1, 2, 4, 8, 32
_MS_BIND, _MS_REC, _MS_PRIVATE = 4096, 16384, 1 << 18
_PR_SET_PDEATHSIG, _PR_SET_NO_NEW_PRIVS, _PR_SET_NAME = 1, 38, 15

# Loaded before any fork, so that children never wait for the dynamic loader.
_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class Confinement:
    """Who the process becomes and what it sees. `uid` 0: stay who we are (no root, single tenant)."""

    uid: int
    tmp: str
    reach: list[str] = field(default_factory=list)
    secrets: dict[str, bytes] = field(default_factory=dict)
    tmp_bytes: int = 0  # above 0: its /tmp, /var/tmp and /dev/shm are in memory and hold so much; `tmp` is not used
    hide: list[str] = field(default_factory=list)  # folders of which it sees only what is in `reach`
    groups: list[str] = field(default_factory=list)  # cgroup.procs files of the groups that it joins


def die_with_parent(parent: int) -> None:
    """End with the process that forked us; called again after every change of uid, which clears it."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def name_process(name: str) -> None:
    """What `ps` shows; at most 15 bytes."""
    _libc.prctl(_PR_SET_NAME, name.encode()[:15], 0, 0, 0)


def enter(confinement: Confinement, parent: int) -> None:
    """Confine this process; raises OSError naming the step that the kernel refused."""
    os.setsid()
    for group in confinement.groups:  # before there is a second process, which would stay outside
        _write(group, "0")
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.umask(0o022)
    if confinement.uid:
        _private_view(confinement)
        if confinement.tmp_bytes:
            resource.setrlimit(resource.RLIMIT_NPROC, (MAX_PROCESSES_OF_UID, MAX_PROCESSES_OF_UID))
            _write("/proc/self/oom_score_adj", OOM_SCORE)
        os.setgroups([])
        os.setresgid(confinement.uid, confinement.uid, confinement.uid)
        os.setresuid(confinement.uid, confinement.uid, confinement.uid)
    _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    die_with_parent(parent)


def _write(path: str, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)


def _mount(source: str, target: str, kind: str, flags: int, data: str = "") -> None:
    if _libc.mount(source.encode(), target.encode(), kind.encode(), flags, data.encode() or None):
        number = ctypes.get_errno()
        raise OSError(number, f"mount {kind or 'bind'} on {target}: {os.strerror(number)}")


def _private_view(confinement: Confinement) -> None:
    if _libc.unshare(_CLONE_NEWNS | _CLONE_NEWIPC):
        number = ctypes.get_errno()
        raise OSError(number, f"namespaces of its own: {os.strerror(number)}")
    _mount("none", "/", "", _MS_REC | _MS_PRIVATE)
    wanted = sorted({os.path.realpath(path) for path in confinement.reach if os.path.exists(path)}, key=len)
    # Opened before anything is covered: what is mounted below goes through these descriptors.
    handles = {path: os.open(path, os.O_PATH | os.O_CLOEXEC) for path in wanted}
    tmp = os.open(confinement.tmp, os.O_PATH | os.O_CLOEXEC)
    closed = {os.path.realpath(path) for path in confinement.hide if os.path.isdir(path)}
    if confinement.tmp_bytes:
        closed.update(path for path in _SHARED if os.path.isdir(path))
    for path in wanted:
        if not path.startswith("/tmp/"):
            closed.update(_first_closed(path))
    _private_tmp(confinement.tmp_bytes, tmp)
    covered = ["/tmp"]
    for cover in sorted(closed):
        if not any(cover.startswith(f"{earlier}/") for earlier in covered):
            _cover(cover, confinement.tmp_bytes)
            covered.append(cover)
    bound: list[str] = []
    for path in wanted:
        if not any(path.startswith(f"{cover}/") for cover in covered):
            continue
        if any(path.startswith(f"{earlier}/") for earlier in bound):
            continue
        target = Path(path)
        os.makedirs(target.parent, exist_ok=True)
        if os.path.isdir(f"/proc/self/fd/{handles[path]}"):
            target.mkdir(exist_ok=True)
        else:
            target.touch()
        _mount(f"/proc/self/fd/{handles[path]}", path, "", _MS_BIND | _MS_REC)
        bound.append(path)
    for handle in [*handles.values(), tmp]:
        os.close(handle)
    _place_secrets(confinement)
    with contextlib.suppress(OSError):  # a container may forbid it; then others' command lines can be read
        _mount("proc", "/proc", "proc", _MS_NOSUID | _MS_NODEV | _MS_NOEXEC, "hidepid=2")


def _private_tmp(tmp_bytes: int, folder: int) -> None:
    if tmp_bytes:
        _mount("tmpfs", "/tmp", "tmpfs", _MS_NOSUID | _MS_NODEV, f"mode=1777,size={tmp_bytes}")
    else:
        _mount(f"/proc/self/fd/{folder}", "/tmp", "", _MS_BIND)


def _cover(folder: str, tmp_bytes: int) -> None:
    if folder == "/var/tmp":
        _mount("/tmp", folder, "", _MS_BIND)
    elif folder == "/dev/shm":
        _mount("tmpfs", folder, "tmpfs", _MS_NOSUID | _MS_NODEV, f"mode=1777,size={tmp_bytes}")
    else:
        _mount("tmpfs", folder, "tmpfs", _MS_NOSUID | _MS_NODEV, "mode=0755,size=1m")


def _first_closed(path: str) -> list[str]:
    """The topmost directory above `path` that other users may not pass."""
    for parent in reversed(Path(path).parents):
        if not parent.stat().st_mode & 0o001:
            return [str(parent)]
    return []


def _place_secrets(confinement: Confinement) -> None:
    """Each secret a file that only the function's uid may read, in memory, seen by no other process."""
    if not os.path.isdir(SECRETS):
        return
    size = sum(len(value) for value in confinement.secrets.values()) // 4096 + len(confinement.secrets) + 16
    _mount("tmpfs", SECRETS, "tmpfs", _MS_NOSUID | _MS_NODEV, f"mode=0500,size={size * 4096},uid={confinement.uid}")
    write_secrets(Path(SECRETS), confinement)
    flags = _MS_REMOUNT | _MS_BIND | _MS_RDONLY | _MS_NOSUID | _MS_NODEV
    _mount("none", SECRETS, "", flags)


def write_secrets(folder: Path, confinement: Confinement) -> None:
    """Write the files, mode 0400, owned by the function's uid where that is possible."""
    for name, value in confinement.secrets.items():
        descriptor = os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o400)
        with os.fdopen(descriptor, "wb") as file:
            file.write(value)
            if confinement.uid:
                os.fchown(descriptor, confinement.uid, confinement.uid)
