"""Who speaks: short signed tokens for services, replicas and bindings.

A token is base64url(JSON claims) "." base64url(Ed25519 signature). The launcher (or the chart) signs
service credentials, the gateway those of replicas, the scheduler bindings; each with a key
of its own, so that none can speak for another. Everyone verifies with the public keys in one trust
file, `{"platform": hex, "replicas": hex, "bindings": hex}`.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from proto.types.errors import SlicewiseError

ISSUERS = ("platform", "replicas", "bindings")


def _b64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _unb64(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


@dataclass(frozen=True)
class SigningKey:
    """One issuer's private key; `issuer` is one of ISSUERS."""

    issuer: str
    key: Ed25519PrivateKey

    @classmethod
    def generate(cls, issuer: str) -> SigningKey:
        """A fresh key."""
        return cls(issuer, Ed25519PrivateKey.generate())

    @classmethod
    def load(cls, issuer: str, path: Path) -> SigningKey:
        """From the file that `save` wrote."""
        return cls(issuer, Ed25519PrivateKey.from_private_bytes(bytes.fromhex(path.read_text().strip())))

    def save(self, path: Path) -> None:
        """Write the key, readable by its owner only."""
        path.touch(mode=0o600)
        path.write_text(self.key.private_bytes_raw().hex() + "\n")

    def public_hex(self) -> str:
        """What goes into the trust file."""
        return self.key.public_key().public_bytes_raw().hex()

    def sign(self, claims: dict[str, Any]) -> str:
        """A token over `claims`; the issuer is added to them."""
        body = _b64(json.dumps({**claims, "iss": self.issuer}, separators=(",", ":")).encode())
        return f"{body}.{_b64(self.key.sign(body.encode()))}"


class Trust:
    """The public keys of all issuers; the only thing a verifier needs."""

    def __init__(self, public_hex: dict[str, str]) -> None:
        self._keys = {name: Ed25519PublicKey.from_public_bytes(bytes.fromhex(key)) for name, key in public_hex.items()}

    @classmethod
    def load(cls, path: Path) -> Trust:
        """From a trust file."""
        return cls(json.loads(path.read_text()))

    def verify(self, token: str, issuer: str, now_unix_ns: int) -> dict[str, Any]:
        """The claims of a token of `issuer`; raises SlicewiseError `unauthorised` for anything else.

        `exp` (Unix nanoseconds), when claimed, must lie ahead of `now_unix_ns`.
        """
        refused = SlicewiseError("unauthorised", f"This {issuer} credential is not valid.")
        body, dot, signature = token.partition(".")
        key = self._keys.get(issuer)
        if not dot or key is None:
            raise refused
        try:
            key.verify(_unb64(signature), body.encode())
            claims: dict[str, Any] = json.loads(_unb64(body))
        except (InvalidSignature, ValueError) as error:
            raise refused from error
        if claims.get("iss") != issuer:
            raise refused
        expires = claims.get("exp")
        if expires is not None and expires < now_unix_ns:
            raise SlicewiseError("unauthorised", f"This {issuer} credential has expired.")
        return claims
