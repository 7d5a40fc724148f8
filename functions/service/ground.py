"""What all replicas of a host stand on: its zygotes, its folders, and each replica's place in them.

Sockets need short paths (108 bytes on Linux), so a state folder that lies deep gets its run folder in
/tmp. A replica's place has its private /tmp, a folder for its two sockets, and, without root, its secrets.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import shlex
import shutil
import socket
import sys
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from functions.service import bundles, confine
from functions.service import bundles_environments as environments
from functions.service.boundaries import Boundaries, Bounds
from functions.service.forks import PACKAGE_ROOT, Zygote
from functions.service.leftovers import MARK, Leftovers
from functions.service.orders import BrokerOrder, FunctionOrder
from functions.service.settings import Settings
from functions.service.wish import Wish

LONGEST_RUN_DIR = 60
FALLBACK_UID = 12000  # the non-root uid of OpenFaaS' chart, for a deployment that brings none
# Brokers run as nobody in particular: root would follow a link that a function puts in place of its socket.
BROKER_UID = 12001
RUNTIME = PACKAGE_ROOT / "functions" / "runtime"


class Ground:
    """Shared by all replicas of one host."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.root = os.geteuid() == 0
        self.run_dir = _run_dir(settings.state_dir)
        self.leftovers = Leftovers(settings.state_dir)
        self.broker_zygote = Zygote("broker", Path(sys.executable))
        self._function_zygotes: dict[tuple[str, bool], Zygote] = {}
        self.boundaries = Boundaries(settings.node)
        self.secrets_mount = self.root and _can_make(Path(confine.SECRETS))

    def function_zygote(self, wish: Wish) -> Zygote:
        """The zygote of this environment; raises SlicewiseError `bad_image` if the environment is not here."""
        key = (wish.image.environment_id, wish.gpu)
        if key not in self._function_zygotes:
            python = environments.python_of(wish.image.environment_id, self.settings.images_dir)
            self._function_zygotes[key] = Zygote("function", python, ("torch",) if wish.gpu else ())
        return self._function_zygotes[key]

    async def close(self) -> None:
        """End all zygotes and remove the run folder."""
        for zygote in [self.broker_zygote, *self._function_zygotes.values()]:
            await zygote.close()
        await asyncio.to_thread(self.boundaries.close)
        shutil.rmtree(self.run_dir, ignore_errors=True)


@dataclass(frozen=True)
class Place:
    """The folders and addresses of one replica."""

    stage: Ground
    wish: Wish
    replica: str
    folder: Path
    uid: int  # 0: not root, everything runs as we do
    port: int  # of its own server, 0 for the template
    bounds: Bounds

    @classmethod
    def make(cls, stage: Ground, wish: Wish, replica: str) -> Place:
        """Create the folders, owned by the function's uid where that is possible."""
        uid = (wish.uid or FALLBACK_UID) if stage.root else 0
        folder = stage.run_dir / replica.rpartition("-")[2]
        folder.mkdir(mode=0o711)
        folder.chmod(0o711)
        for name in ("tmp", "run", "secrets", "broker"):
            (folder / name).mkdir(mode=0o700)
            if uid:
                owner = BROKER_UID if name == "broker" else uid
                os.chown(folder / name, owner, owner)
        if uid:  # function and broker meet here, each with a socket of its own
            os.chown(folder / "run", uid, BROKER_UID)
            (folder / "run").chmod(0o2770)
        port = (wish.port() or _free_port()) if wish.command else 0
        memory_bytes = wish.memory_bytes or stage.settings.memory_bytes
        bounds = stage.boundaries.make(replica, stage.settings.max_processes, memory_bytes)
        place = cls(stage, wish, replica, folder, uid, port, bounds)
        if not stage.secrets_mount:
            confine.write_secrets(folder / "secrets", confine.Confinement(uid, "", secrets=wish.secrets))
        return place

    def remove(self) -> None:
        """Blocking."""
        self.bounds.remove()
        shutil.rmtree(self.folder, ignore_errors=True)

    def function_order(self) -> FunctionOrder:
        """What the function zygote is told."""
        wish, settings = self.wish, self.stage.settings
        bundle = bundles.bundle_path(wish.image.digest, settings.images_dir).resolve()
        python = environments.python_of(wish.image.environment_id, settings.images_dir)
        user_path = [entry for entry in wish.environment.get("PYTHONPATH", "").split(os.pathsep) if entry]
        runtime = [str(RUNTIME)] if wish.gpu else []
        environment = self._environment(python, [*runtime, *user_path])
        reach = [*self._interpreter(), str(python.parents[1]), str(bundle), str(self.folder / "run"), *runtime]
        if not self.stage.secrets_mount:
            reach.append(str(self.folder / "secrets"))
        port = str(self.port)
        return FunctionOrder(
            name=wish.function.name,
            uid=self.uid,
            tmp=str(self.folder / "tmp"),
            cwd=str(bundle),
            environment=environment,
            secrets=wish.secrets if self.stage.secrets_mount else {},
            reach=reach,
            template=wish.image.template or "python3-http",
            handler=wish.image.handler,
            listen=str(self.folder / "run" / "function.sock"),
            command=[re.sub(r"\$\{?PORT\}?", port, word) for word in wish.command],
            gpu=wish.gpu,
            threads=wish.threads,
            exec_timeout_s=wish.exec_timeout_s,
            path=[str(bundle), *user_path, *runtime],
            hide=[str(PACKAGE_ROOT)],
            hide_folders=self._others(),
            tmp_bytes=settings.tmp_bytes,
            groups=self.bounds.entrances,
        )

    def _others(self) -> list[str]:
        """Where other functions' bundles, sockets and logs lie, and the data door."""
        settings = self.stage.settings
        door = [os.path.dirname(settings.door_path)] if settings.door_path else []
        own = [settings.images_dir, settings.state_dir, self.stage.run_dir]
        return [str(folder) for folder in [*settings.hide, *own, *door]]

    def _interpreter(self) -> list[str]:
        """Where Python finds what is imported later."""
        imported = [entry for entry in sys.path if entry and os.path.realpath(entry) != str(PACKAGE_ROOT)]
        return [sys.base_prefix, sys.prefix, *imported]

    def _environment(self, python: Path, python_path: list[str]) -> dict[str, str]:
        wish = self.wish
        private_tmp = "/tmp" if self.uid else str(self.folder / "tmp")
        path = os.pathsep.join([str(python.parent), "/usr/local/bin", "/usr/bin", "/bin"])
        environment = {
            "PATH": path,
            "HOME": private_tmp,
            "TMPDIR": private_tmp,
            "LANG": "C.UTF-8",
            "PYTHONUNBUFFERED": "1",
            "PYTHONDONTWRITEBYTECODE": "1",  # the bundle is not its to change
        }
        # A uid without a name in /etc/passwd breaks getpass.getuser(), which torch calls.
        environment |= {"USER": "function", "LOGNAME": "function"}
        environment |= wish.environment
        if self.port:
            environment["PORT"] = str(self.port)
        environment |= {
            "OPENFAAS_NAME": wish.function.name,
            "OPENFAAS_NAMESPACE": wish.function.namespace,
            "fprocess": shlex.join(wish.command) or "python index.py",
            "secret_mount_path": confine.SECRETS if self.stage.secrets_mount else str(self.folder / "secrets"),
            MARK: self.replica,
        }
        if python_path:
            environment["PYTHONPATH"] = os.pathsep.join(python_path)
        # For the runtime; a CPU function has none and must not look as if it had.
        for name, value in {
            "SLICEWISE_GPU": "1",
            "SLICEWISE_SOCKET": str(self.folder / "run" / "runtime.sock"),
            "SLICEWISE_BUNDLE": wish.image.digest,
            "SLICEWISE_ENVIRONMENT": wish.image.environment_id,
        }.items():
            environment.pop(name, None)
            if wish.gpu:
                environment[name] = value
        return environment

    def broker_order(self) -> BrokerOrder:
        """What the broker zygote is told."""
        wish, settings = self.wish, self.stage.settings
        host = urlsplit(wish.upstream_url).hostname or "" if wish.command else ""
        # The folder, not the socket: a GPU manager that starts again makes a new one in it.
        door = [os.path.dirname(settings.door_path)] if settings.door_path else []
        return BrokerOrder(
            replica=self.replica,
            namespace=wish.function.namespace,
            function=wish.function.name,
            revision=wish.revision,
            uid=self.uid,
            gpu=wish.gpu,
            credential=wish.credential,
            scheduler=settings.scheduler,
            node=settings.node,
            door_path=settings.door_path,
            environment_id=wish.image.environment_id,
            address=settings.address,
            runtime_socket=str(self.folder / "run" / "runtime.sock"),
            upstream_socket="" if wish.command else str(self.folder / "run" / "function.sock"),
            upstream_host=host,
            upstream_port=self.port,
            ready_path=wish.environment.get("ready_path", ""),
            max_inflight=wish.max_inflight,
            read_timeout_s=wish.read_timeout_s,
            write_timeout_s=wish.write_timeout_s,
            exec_timeout_s=wish.exec_timeout_s,
            start_timeout_s=settings.replica_start_timeout_s,
            report_calls=settings.report_calls,
            broker_uid=BROKER_UID if self.uid else 0,
            tmp=str(self.folder / "broker"),
            reach=[*self._interpreter(), str(PACKAGE_ROOT), str(self.folder / "run"), *door],
        )


def _run_dir(state_dir: Path) -> Path:
    """An empty folder for sockets, the same one each time this state folder is used."""
    folder = state_dir.resolve() / "r"
    if len(str(folder)) > LONGEST_RUN_DIR:
        mark = hashlib.sha256(str(state_dir.resolve()).encode()).hexdigest()[:10]
        folder = Path("/tmp") / f"slicewise-{os.geteuid()}-{mark}"
    folder.mkdir(mode=0o711, parents=True, exist_ok=True)
    if folder.is_symlink() or folder.stat().st_uid != os.geteuid():
        raise PermissionError(f"{folder} belongs to somebody else")
    folder.chmod(0o711)
    for old in folder.iterdir():
        shutil.rmtree(old, ignore_errors=True)
    return folder


def _can_make(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return False
    return True


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
