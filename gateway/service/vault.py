"""Secrets: sealed with a key that etcd never sees, opened only on their way to a function host."""

from __future__ import annotations

from pathlib import Path

from cryptography.fernet import Fernet, InvalidToken

from datastore import keys
from datastore.store import Store
from gateway.core.names import is_secret_name
from proto.types.errors import SlicewiseError

MAX_SECRET_BYTES = 512 * 1024  # etcd takes values up to 1.5 MB, and sealing adds a third


class Vault:
    """The secrets of all namespaces by (namespace, name)."""

    def __init__(self, store: Store, key_file: Path) -> None:
        self._store = store
        try:
            self._fernet = Fernet(key_file.read_bytes().strip())
        except (OSError, ValueError) as error:
            raise SlicewiseError("not_found", f"secrets_key: {key_file} holds no Fernet key ({error}).") from error
        self._sealed: dict[tuple[str, str], str] = {}

    async def load(self) -> None:
        """Read every sealed secret back; raises SlicewiseError `unavailable` while etcd is away."""
        for key, value in (await self._store.list_prefix(keys.SECRETS)).items():
            namespace, _, name = key.removeprefix(keys.SECRETS).partition("/")
            self._sealed[namespace, name] = str(value["sealed"])

    def names(self, namespace: str) -> list[str]:
        """The names of a namespace's secrets, sorted."""
        return sorted(name for owner, name in self._sealed if owner == namespace)

    def missing(self, namespace: str, names: tuple[str, ...]) -> str | None:
        """The first of `names` that does not exist."""
        return next((name for name in names if (namespace, name) not in self._sealed), None)

    def open(self, namespace: str, names: tuple[str, ...]) -> dict[str, bytes]:
        """The values of those that exist; raises SlicewiseError `internal` for one sealed with another key."""
        values: dict[str, bytes] = {}
        for name in names:
            sealed = self._sealed.get((namespace, name))
            if sealed is None:
                continue
            try:
                values[name] = self._fernet.decrypt(sealed)
            except InvalidToken as error:
                raise SlicewiseError("internal", f"The secret {name} was sealed with another key.") from error
        return values

    async def create(self, namespace: str, name: str, value: bytes) -> None:
        """A new secret; raises SlicewiseError `exists`, `unprocessable` for its name, `bad_secret` for its size."""
        _check(name, value)
        if (namespace, name) in self._sealed:
            raise SlicewiseError("exists", f"There is a secret {name} in {namespace} already; PUT replaces it.")
        await self._write(namespace, name, value)

    async def replace(self, namespace: str, name: str, value: bytes) -> None:
        """Another value for a secret; raises SlicewiseError `not_found`."""
        _check(name, value)
        self._must_exist(namespace, name)
        await self._write(namespace, name, value)

    async def remove(self, namespace: str, name: str) -> None:
        """Forget a secret; raises SlicewiseError `not_found`."""
        self._must_exist(namespace, name)
        await self._store.delete(keys.secret(namespace, name))
        self._sealed.pop((namespace, name), None)

    def _must_exist(self, namespace: str, name: str) -> None:
        if (namespace, name) not in self._sealed:
            raise SlicewiseError("not_found", f"There is no secret {name[:80]} in {namespace}.")

    async def _write(self, namespace: str, name: str, value: bytes) -> None:
        sealed = self._fernet.encrypt(value).decode()
        await self._store.put(keys.secret(namespace, name), {"sealed": sealed})
        self._sealed[namespace, name] = sealed


def _check(name: str, value: bytes) -> None:
    if not is_secret_name(name):
        raise SlicewiseError("unprocessable", f"name: {name[:80]!r} is no valid name of a secret.")
    if len(value) > MAX_SECRET_BYTES:
        raise SlicewiseError("bad_secret", f"value: is longer than {MAX_SECRET_BYTES} bytes.")
