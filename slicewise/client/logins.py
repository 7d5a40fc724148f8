"""The file in which faas-cli keeps logins: read and written so that both tools share them.

`~/.openfaas/config.yml`, or `config.yml` in the folder that OPENFAAS_CONFIG names, or in `.openfaas`
when CI is true; entries match by the gateway's URL, exactly.
"""

from __future__ import annotations

import base64
import os
from pathlib import Path
from typing import Any

from proto.types.errors import SlicewiseError

FOLDER_VARIABLE = "OPENFAAS_CONFIG"
_FILE = "config.yml"


def path() -> Path:
    """Where logins are kept; the file need not exist."""
    given = os.environ.get(FOLDER_VARIABLE, "")
    if given:
        folder = Path(given).expanduser()
        return folder if folder.is_file() else folder / _FILE
    if os.environ.get("CI", "").lower() in ("true", "1"):
        return Path(".openfaas") / _FILE
    return Path.home() / ".openfaas" / _FILE


def authorization(gateway: str) -> str:
    """The Authorization header for `gateway`, "" without a login."""
    for entry in _read(path()).get("auths") or []:
        if isinstance(entry, dict) and entry.get("gateway") == gateway:
            kind = "Bearer" if entry.get("auth") == "oauth2" else "Basic"
            return f"{kind} {entry.get('token', '')}"
    return ""


def basic(user: str, password: str) -> str:
    """The Authorization header for a user and a password."""
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def store(gateway: str, user: str, password: str) -> Path:
    """Keep a basic login, replacing an earlier one of the same gateway; the file."""
    token = basic(user, password).removeprefix("Basic ")
    return _replace(gateway, {"gateway": gateway, "auth": "basic", "token": token})


def forget(gateway: str) -> None:
    """Remove the login of `gateway`; none is fine."""
    if path().exists():
        _replace(gateway, None)


def _replace(gateway: str, entry: dict[str, Any] | None) -> Path:
    from proto.wire.settings import write_yaml

    file = path()
    document = _read(file)
    auths = [
        item for item in document.get("auths") or [] if not isinstance(item, dict) or item.get("gateway") != gateway
    ]
    document["auths"] = [*auths, entry] if entry else auths
    try:
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_yaml(file, document)
    except OSError as error:
        raise SlicewiseError("bad_request", f"{file}: the login cannot be stored ({error.strerror}).") from error
    return file


def _read(file: Path) -> dict[str, Any]:
    from proto.wire.settings import read_yaml

    return read_yaml(file) if file.exists() else {}
