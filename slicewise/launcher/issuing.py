"""Keys, credentials and passwords of one platform: made at the first start, kept afterwards.

Every service has a token of its own, signed with the platform's key; the gateway signs those of
replicas, the scheduler bindings. All public keys stand in the trust file.
"""

from __future__ import annotations

import json
import secrets
import string
from collections.abc import Iterable
from pathlib import Path

from cryptography.fernet import Fernet

from proto.wire.credentials import ISSUERS, SigningKey
from slicewise.launcher.layout import Layout

USER = "admin"
_PASSWORD_LENGTH = 32  # as OpenFaaS's chart makes them


def issue(layout: Layout, services: Iterable[str]) -> None:
    """Make what is missing and leave the rest as it is."""
    issuers = {name: _signing_key(layout.keys / f"{name}.key", name) for name in ISSUERS}
    _write(layout.trust, json.dumps({name: key.public_hex() for name, key in issuers.items()}) + "\n", 0o644)
    for service in services:
        # Signed anew at each start: a platform key that was replaced takes effect.
        _write(credential(layout, service), issuers["platform"].sign({"sub": f"service:{service}"}) + "\n")
    _once(layout.keys / "secrets.key", Fernet.generate_key().decode())
    for name in ("etcd-root-password", "etcd-password"):
        _once(layout.keys / name, secrets.token_urlsafe(32))
    _once(layout.secrets / "basic-auth-user", USER)
    alphabet = string.ascii_letters + string.digits
    _once(layout.password, "".join(secrets.choice(alphabet) for _ in range(_PASSWORD_LENGTH)))


def credential(layout: Layout, service: str) -> Path:
    """The file with the token of `service`."""
    return layout.keys / f"{service}.token"


def read(path: Path) -> str:
    """What one of these files holds."""
    return path.read_text().strip()


def _signing_key(path: Path, issuer: str) -> SigningKey:
    if path.exists():
        return SigningKey.load(issuer, path)
    key = SigningKey.generate(issuer)
    key.save(path)
    return key


def _once(path: Path, text: str) -> None:
    if not path.exists():
        _write(path, text + "\n")


def _write(path: Path, text: str, mode: int = 0o600) -> None:
    fresh = path.with_name(path.name + ".new")
    fresh.touch(mode=mode)
    fresh.chmod(mode)
    fresh.write_text(text)
    fresh.replace(path)
