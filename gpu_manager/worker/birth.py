"""What a fork does before it may hold a user's model: identity, isolation, seeds, a clean import state.

As root, a worker gets a network namespace without any interface, a /tmp of its own, its function's
uid, and no way back. Without root none of that is possible; `impossible()` says what is missing and the
zygote passes it on with every answer, so that nobody takes a single-tenant node for more.
"""

from __future__ import annotations

import ctypes
import os
import random
import signal
import sys
from pathlib import Path
from typing import Any

_CLONE_NEWNS = 0x00020000
_CLONE_NEWIPC = 0x08000000
_CLONE_NEWNET = 0x40000000
_MS_BIND = 0x1000
_MS_NOSUID_NODEV = 0x2 | 0x4
_MS_PRIVATE_RECURSIVE = 0x40000 | 0x4000
_PR_SET_PDEATHSIG = 1
_PR_SET_NO_NEW_PRIVS = 38
# A worker that fills its /tmp must not take the node's memory with it.
_TMP_OPTIONS = b"size=256m,mode=1777"

_libc = ctypes.CDLL(None, use_errno=True)

# What of ours a user's own modules may be called, too.
_OURS = ("proto", "gpu_manager", "functions", "gateway", "scheduler", "cache_manager", "datastore", "slicewise")

# Their module objects stay alive here: freeing them would only copy the zygote's pages.
_forgotten: list[object] = []


def _checked(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def impossible() -> list[str]:
    """Which parts of the isolation this process cannot give to its forks; tried once, in a child."""
    if os.geteuid() != 0:
        return ["uid", "network", "tmp"]
    missing = []
    for flag, name in ((_CLONE_NEWNET, "network"), (_CLONE_NEWNS, "tmp")):
        pid = os.fork()
        if pid == 0:
            os._exit(0 if _libc.unshare(flag) == 0 else 1)
        if os.waitpid(pid, 0)[1] != 0:
            missing.append(name)
    return missing


def be_born(order: dict[str, Any], missing: list[str]) -> None:
    """Turn a fresh fork into a worker for `order` (the `fork` frame); raises OSError if isolation fails."""
    os.setsid()
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    quiet = os.open(os.devnull, os.O_RDONLY)
    os.dup2(quiet, 0)
    os.close(quiet)
    if order.get("cgroup"):
        Path(order["cgroup"], "cgroup.procs").write_text("0")
    paths = [str(path) for path in order.get("sys_path") or []]
    _isolate(str(order.get("tmp") or ""), paths, missing)
    _become(int(order.get("uid") or 0), int(order.get("gid") or 0))
    os.environ["CUDA_VISIBLE_DEVICES"] = str(order.get("cuda") or "")
    for name in [name for name in os.environ if name.startswith("SLICEWISE_")]:
        del os.environ[name]
    _forget_ours(paths)
    _reseed()
    sys.argv = [f"slicewise-worker {order.get('key', '')} on {order.get('slice', '')}"]
    _libc.prctl(15, f"sw:{order.get('key', '')}"[:15].encode(), 0, 0, 0)


def _isolate(tmp: str, paths: list[str], missing: list[str]) -> None:
    flags = 0 if "network" in missing else _CLONE_NEWNET | _CLONE_NEWIPC
    private_tmp = "tmp" not in missing
    if private_tmp:
        flags |= _CLONE_NEWNS
    if flags:
        _checked(_libc.unshare(flags), "a worker could not leave the node's namespaces")
    if private_tmp:
        _own_tmp(tmp, [sys.prefix, sys.base_prefix, *sys.path, *paths])


def _own_tmp(tmp: str, needed: list[str]) -> None:
    """Mount `tmp` (or an empty tmpfs) over /tmp, and cover every closed folder above something needed.

    Python may live below a folder that only root may enter (/root); such a folder becomes an empty one in
    which the needed paths, and nothing else, are mounted back.
    """
    _checked(_libc.mount(b"none", b"/", None, _MS_PRIVATE_RECURSIVE, None), "making mounts private")
    kept: dict[str, int] = {}
    covers = {"/tmp"}
    for path in sorted({os.path.realpath(path) for path in needed if path}):
        if os.path.exists(path) and not any(path == k or path.startswith(k + "/") for k in kept):
            closed = _closed_above(path)
            if closed:
                covers.add(closed)
            kept[path] = os.open(path, os.O_PATH | os.O_CLOEXEC)
    for cover in sorted(covers):
        if cover == "/tmp" and tmp:
            _checked(_libc.mount(tmp.encode(), b"/tmp", None, _MS_BIND, None), "mounting the worker's /tmp")
        else:
            options = _TMP_OPTIONS if cover == "/tmp" else b"size=1m,mode=755"
            _checked(_libc.mount(b"tmpfs", cover.encode(), b"tmpfs", _MS_NOSUID_NODEV, options), f"covering {cover}")
    for path, fd in kept.items():
        if any(path.startswith(cover + "/") for cover in covers):
            _mount_back(path, fd)
        os.close(fd)
    os.environ["TMPDIR"] = "/tmp"
    os.chdir("/tmp")


def _closed_above(path: str) -> str:
    """The first folder on the way to `path` that others may not enter, "" if there is none."""
    for parent in reversed(Path(path).parents):
        if not parent.stat().st_mode & 0o001:
            return str(parent)
    return ""


def _mount_back(path: str, fd: int) -> None:
    if os.path.isdir(f"/proc/self/fd/{fd}"):
        os.makedirs(path, exist_ok=True)
    else:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        Path(path).touch()
    source = f"/proc/self/fd/{fd}".encode()
    _checked(_libc.mount(source, path.encode(), None, _MS_BIND, None), f"keeping {path}")


def _become(uid: int, gid: int) -> None:
    if os.geteuid() == 0 and uid:
        os.setgroups([])
        os.setresgid(gid or uid, gid or uid, gid or uid)
        os.setresuid(uid, uid, uid)
        os.environ["HOME"] = "/tmp"
    _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    # Changing the uid clears it, so it comes last; a parent that died meanwhile is seen by its pid.
    parent = os.getppid()
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent or parent == 1:
        os._exit(0)


def _forget_ours(paths: list[str]) -> None:
    """The user's modules may be called `proto` or `scheduler`: ours leave sys.modules and the path."""
    for name in list(sys.modules):
        if name.partition(".")[0] in _OURS:
            _forgotten.append(sys.modules.pop(name))
    root = str(Path(__file__).resolve().parents[2])
    sys.meta_path[:] = [finder for finder in sys.meta_path if "__editable___slicewise" not in _module_of(finder)]
    kept = [entry for entry in sys.path if entry and os.path.realpath(entry) != root]
    installed = next((i for i, entry in enumerate(kept) if "site-packages" in entry), len(kept))
    kept[installed:installed] = paths
    sys.path[:] = kept
    for entry in (root, *paths):
        sys.path_importer_cache.pop(entry, None)


def _module_of(finder: object) -> str:
    return str(getattr(finder, "__module__", "")) + type(finder).__module__


def _reseed() -> None:
    import torch

    random.seed()
    seed = int.from_bytes(os.urandom(8), "little") >> 1
    torch.default_generator.manual_seed(seed)  # torch.manual_seed would import the compiler first
    if os.environ["CUDA_VISIBLE_DEVICES"]:
        torch.cuda.manual_seed_all(seed)  # noted, and done when the context is made
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed()
