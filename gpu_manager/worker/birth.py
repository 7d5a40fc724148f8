"""What a fork does before it may hold a user's model: identity, isolation, seeds, a clean import state.

As root, a worker gets a network namespace without any interface, a /tmp of its own, its function's
uid, a PID namespace whose first process it is, so that all it has started ends with it, and no way back. Without
root none of that is possible; `impossible()` says what is missing and the zygote passes it on with every answer, so
that nobody takes a single-tenant node for more.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import random
import resource
import select
import signal
import sys
from pathlib import Path
from typing import Any

from . import mounts

_CLONE_NEWNS = 0x00020000
_CLONE_NEWIPC = 0x08000000
_CLONE_NEWPID = 0x20000000
_CLONE_NEWNET = 0x40000000
_PR_SET_PDEATHSIG = 1
_PR_SET_NO_NEW_PRIVS = 38
_libc = ctypes.CDLL(None, use_errno=True)

# All processes and threads of one function here, replicas and workers together; a worker's cgroup is tighter.
MAX_PROCESSES_OF_UID = 4096
# When memory is short a worker goes before what serves all.
_OOM_SCORE = "500"

# What of ours a user's own modules may be called, too.
_OURS = ("proto", "gpu_manager", "functions", "gateway", "scheduler", "cache_manager", "datastore", "slicewise")

# Their module objects stay alive here: freeing them would only copy the zygote's pages.
_forgotten: list[object] = []


def impossible() -> list[str]:
    """Which parts of the isolation this process cannot give to its forks; tried once, in a child."""
    if os.geteuid() != 0:
        return ["uid", "network", "tmp", "processes"]
    missing = []
    for flag, name in ((_CLONE_NEWNET, "network"), (_CLONE_NEWNS, "tmp"), (_CLONE_NEWPID, "processes")):
        pid = os.fork()
        if pid == 0:
            os._exit(0 if _libc.unshare(flag) == 0 else 1)
        if os.waitpid(pid, 0)[1] != 0:
            missing.append(name)
    return missing


def fork(missing: list[str]) -> int:
    """As os.fork, into a PID namespace of the child's own unless that is missing."""
    if "processes" in missing:
        return os.fork()
    ours = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
    try:
        if _libc.unshare(_CLONE_NEWPID) != 0:
            raise OSError(ctypes.get_errno(), "a worker could not get a PID namespace")
        try:
            pid = os.fork()
        finally:
            if os.getpid() != 1 and _libc.setns(ours, _CLONE_NEWPID) != 0:
                os._exit(1)  # whatever is forked from here on would be in the worker's namespace
    finally:
        os.close(ours)
    return pid


def leave(missing: list[str], hide: list[str], parent: int) -> mounts.Covers | None:
    """What a fork does before it is known whose worker it will be; raises OSError if isolation fails.

    It sees nothing below the folders in `hide`, and ends with the process whose pidfd `parent` is. The answer is for
    `become`: what hides the node's folders, None without mounts of its own.
    """
    _die_with(parent)
    os.setsid()
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    _libc.prctl(15, b"sw:spare", 0, 0, 0)
    quiet = os.open(os.devnull, os.O_RDONLY)
    os.dup2(quiet, 0)
    os.close(quiet)
    flags = 0 if "network" in missing else _CLONE_NEWNET | _CLONE_NEWIPC
    flags |= 0 if "tmp" in missing else _CLONE_NEWNS
    if flags and _libc.unshare(flags) != 0:
        raise OSError(ctypes.get_errno(), "a worker could not leave the node's namespaces")
    covers = None
    if "tmp" not in missing:
        covers = mounts.Covers([sys.prefix, sys.base_prefix, *sys.path], hide)
        if "processes" not in missing:
            mounts.own_processes()
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(_OOM_SCORE)
    _forget_ours()
    _reseed()
    return covers


def become(order: dict[str, Any], covers: mounts.Covers | None, parent: int) -> None:
    """Turn it into the worker for `order` (the `fork` frame); raises OSError if isolation fails. `parent`: a pidfd."""
    paths = [str(path) for path in order.get("sys_path") or []]
    if covers is not None:
        covers.keep(paths)
        covers.close()
    _take_uid(int(order.get("uid") or 0), int(order.get("gid") or 0))
    _die_with(parent)  # changing the uid has cleared it
    os.environ["CUDA_VISIBLE_DEVICES"] = str(order.get("cuda") or "")
    for name in [name for name in os.environ if name.startswith("SLICEWISE_")]:
        del os.environ[name]
    _put_first(paths)
    if os.environ["CUDA_VISIBLE_DEVICES"]:
        import torch

        torch.cuda.manual_seed_all(_seed())  # noted, and done when the context is made
    sys.argv = [f"slicewise-worker {order.get('key', '')} on {order.get('slice', '')}"]
    _libc.prctl(15, f"sw:{order.get('key', '')}"[:15].encode(), 0, 0, 0)


def _take_uid(uid: int, gid: int) -> None:
    if os.geteuid() == 0 and uid:
        resource.setrlimit(resource.RLIMIT_NPROC, (MAX_PROCESSES_OF_UID, MAX_PROCESSES_OF_UID))
        os.setgroups([])
        os.setresgid(gid or uid, gid or uid, gid or uid)
        os.setresuid(uid, uid, uid)
        os.environ["HOME"] = "/tmp"
    _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)


def _die_with(parent: int) -> None:
    """End with the zygote, whose pidfd this is: no number names it in a PID namespace of our own."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if select.select([parent], [], [], 0)[0]:
        os._exit(0)


def _forget_ours() -> None:
    """The user's modules may be called `proto` or `scheduler`: ours leave sys.modules and the path."""
    for name in list(sys.modules):
        if name.partition(".")[0] in _OURS:
            _forgotten.append(sys.modules.pop(name))
    root = str(Path(__file__).resolve().parents[2])
    sys.meta_path[:] = [finder for finder in sys.meta_path if "__editable___slicewise" not in _module_of(finder)]
    sys.path[:] = [entry for entry in sys.path if entry and os.path.realpath(entry) != root]
    sys.path_importer_cache.pop(root, None)


def _put_first(paths: list[str]) -> None:
    """What the model brings along is found before what is installed here."""
    installed = next((i for i, entry in enumerate(sys.path) if "site-packages" in entry), len(sys.path))
    sys.path[installed:installed] = paths
    for entry in paths:
        sys.path_importer_cache.pop(entry, None)


def _module_of(finder: object) -> str:
    return str(getattr(finder, "__module__", "")) + type(finder).__module__


def _reseed() -> None:
    import torch

    random.seed()
    torch.default_generator.manual_seed(_seed())  # torch.manual_seed would import the compiler first
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed()


def _seed() -> int:
    return int.from_bytes(os.urandom(8), "little") >> 1
