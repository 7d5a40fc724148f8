"""Where everything of one platform lies in its state folder."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from proto.types.errors import SlicewiseError

STATE_DIR_VARIABLE = "SLICEWISE_STATE_DIR"


@dataclass(frozen=True)
class Layout:
    """The paths under one state folder; docs/internals.md lists them."""

    root: Path

    @property
    def etcd(self) -> Path:
        """etcd's data."""
        return self.root / "etcd"

    @property
    def keys(self) -> Path:
        """Private keys, credentials and passwords; for the platform's own user only."""
        return self.root / "keys"

    @property
    def trust(self) -> Path:
        """Public keys of all issuers."""
        return self.root / "trust.json"

    @property
    def secrets(self) -> Path:
        """basic-auth-user and basic-auth-password."""
        return self.root / "secrets"

    @property
    def password(self) -> Path:
        """The file with the gateway's password."""
        return self.secrets / "basic-auth-password"

    @property
    def config(self) -> Path:
        """One YAML file a service, written anew at each start."""
        return self.root / "config"

    @property
    def logs(self) -> Path:
        """One file a service, and those that rotation kept."""
        return self.root / "logs"

    @property
    def run(self) -> Path:
        """Sockets."""
        return self.root / "run"

    @property
    def images(self) -> Path:
        """Bundles and environments."""
        return self.root / "images"

    @property
    def board(self) -> Path:
        """Pids and addresses: what `slicewise status` reads."""
        return self.root / "launcher.json"

    @property
    def lock(self) -> Path:
        """Held by the launcher while it lives."""
        return self.root / "launcher.lock"

    def node(self, name: str, part: str) -> Path:
        """The folder of a node's GPU manager or function host."""
        return self.root / "nodes" / name / part

    def service(self, name: str) -> Path:
        """The folder of a service that is no node's."""
        return self.root / name

    def log(self, name: str) -> Path:
        """The log of one process."""
        return self.logs / f"{name}.log"

    def make(self) -> None:
        """Create the folders; raises SlicewiseError `bad_request` when that is not possible."""
        try:
            # Functions run under uids of their own: they pass through, and see only what is theirs.
            self.root.mkdir(parents=True, exist_ok=True)
            self.root.chmod(self.root.stat().st_mode | 0o711)
            for folder, mode in (
                (self.etcd, 0o700),
                (self.keys, 0o700),
                (self.secrets, 0o700),
                (self.config, 0o700),
                (self.logs, 0o700),
                (self.run, 0o711),
                (self.images, 0o755),
            ):
                folder.mkdir(exist_ok=True)
                folder.chmod(mode)
        except OSError as error:
            raise SlicewiseError(
                "bad_request", f"state-dir: {self.root} cannot be used as state folder: {error.strerror}."
            ) from error

    def closed_parent(self) -> Path | None:
        """The first folder on the way that other users cannot pass, None if all are open."""
        for folder in self.root.parents:
            if not os.stat(folder).st_mode & 0o001:
                return folder
        return None


def default_state_dir() -> Path:
    """`$SLICEWISE_STATE_DIR`, else ~/.slicewise.

    Root's home is closed to others on most machines, and functions run under uids of their own that
    must reach their files: there the default is /var/lib/slicewise.
    """
    given = os.environ.get(STATE_DIR_VARIABLE, "")
    if given:
        return Path(given).expanduser().absolute()
    home = Path.home()
    if os.geteuid() == 0 and not home.stat().st_mode & 0o001:
        return Path("/var/lib/slicewise")
    return home / ".slicewise"
