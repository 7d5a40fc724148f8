"""Basic authentication as OpenFaaS has it: two files, read once at start, compared in constant time."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from pathlib import Path

from proto.types.errors import SlicewiseError

USER_FILE = "basic-auth-user"
PASSWORD_FILE = "basic-auth-password"


class BasicAuth:
    """Who may manage. Without credentials (authentication switched off) everybody may."""

    def __init__(self, user: str | None, password: str | None) -> None:
        self._expected = None if user is None or password is None else (_digest(user), _digest(password))

    @classmethod
    def load(cls, enabled: bool, folder: Path) -> BasicAuth:
        """From the two files; raises SlicewiseError `not_found` when authentication is on and one is missing."""
        if not enabled:
            return cls(None, None)
        try:
            return cls((folder / USER_FILE).read_text().strip(), (folder / PASSWORD_FILE).read_text().strip())
        except OSError as error:
            raise SlicewiseError(
                "not_found",
                f"secret_mount_path: {folder} must hold {USER_FILE} and {PASSWORD_FILE} ({error.strerror}).",
            ) from error

    def check(self, authorization: str) -> None:
        """Raises SlicewiseError `unauthorised` unless the Authorization header is right."""
        if self._expected is None:
            return
        user, password = _credentials(authorization)
        # Both are always compared, so that time does not tell which was wrong.
        right_user = hmac.compare_digest(_digest(user), self._expected[0])
        right_password = hmac.compare_digest(_digest(password), self._expected[1])
        if not (right_user and right_password):
            raise SlicewiseError("unauthorised", "invalid credentials")


def _credentials(authorization: str) -> tuple[str, str]:
    scheme, _, encoded = authorization.partition(" ")
    if scheme.lower() != "basic":
        return "", ""
    try:
        user, _, password = base64.b64decode(encoded.strip(), validate=True).decode().partition(":")
    except (binascii.Error, ValueError):
        return "", ""
    return user, password


def _digest(text: str) -> bytes:
    # Digests have one length, so a comparison does not tell how long the secret is.
    return hashlib.sha256(text.encode()).digest()
