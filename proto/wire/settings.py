"""How every service is told what to do: flags over environment over file, unknown keys are errors.

A service declares its keys as a subclass of `ServiceSettings`; `load` reads `--config FILE` (YAML 1.2),
`SLICEWISE_<SERVICE>_<KEY>` and `--key value`, and ends the process with status 2 and one line on
stderr that names the key when something does not fit.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError
from pydantic_settings import BaseSettings, InitSettingsSource, PydanticBaseSettingsSource, SettingsConfigDict
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from proto.types.errors import SlicewiseError

BAD_INPUT = 2  # exit status of a command or service that was told something wrong

_file_values: ContextVar[Mapping[str, Any] | None] = ContextVar("file_values", default=None)


class LayeredSettings(BaseSettings):
    """Keys that flags, environment and a file give; see `layered`."""

    model_config = SettingsConfigDict(extra="forbid", frozen=True)

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Flags, then environment, then file."""
        return init_settings, env_settings, InitSettingsSource(settings_cls, dict(_file_values.get() or {}))


class ServiceSettings(LayeredSettings):
    """The keys that all services have. Addresses are host:port."""

    listen: str = "127.0.0.1:0"
    """Where the gRPC server listens; port 0 takes any free one."""
    state_dir: Path
    """A folder of the service's own; it must exist."""
    trust: Path
    """The trust file: public keys of all issuers."""
    credential: Path
    """File with the service's signed token."""
    etcd: str = ""
    """Where etcd serves; empty for services that do not need it."""
    etcd_user: str = "slicewise"
    etcd_password_file: Path | None = None
    log_level: str = "INFO"

    def etcd_password(self) -> str:
        """The password in its file, "" without one."""
        return self.etcd_password_file.read_text().strip() if self.etcd_password_file else ""

    def credential_token(self) -> str:
        """The signed token in its file."""
        return self.credential.read_text().strip()


Settings = TypeVar("Settings", bound=ServiceSettings)
Layered = TypeVar("Layered", bound=LayeredSettings)


def load(cls: type[Settings], service: str, arguments: Sequence[str] | None = None) -> Settings:
    """The settings of this process; on bad input says so on stderr and exits with status 2."""
    try:
        return read(cls, service, sys.argv[1:] if arguments is None else arguments)
    except SlicewiseError as error:
        print(f"{service}: {error.message}", file=sys.stderr)
        raise SystemExit(BAD_INPUT) from error


def read(cls: type[Settings], service: str, arguments: Sequence[str]) -> Settings:
    """As `load`, but raises SlicewiseError `bad_request`."""
    flags = _flags(cls, arguments)
    config = flags.pop("config", None)
    return layered(cls, f"SLICEWISE_{service.upper()}_", f"the {service}", flags, Path(config) if config else None)


def layered(cls: type[Layered], prefix: str, whose: str, flags: Mapping[str, Any], file: Path | None) -> Layered:
    """`flags` over the environment's `prefix`KEY over the file; raises SlicewiseError `bad_request` with the key."""
    for name in os.environ:
        if name.startswith(prefix) and name.removeprefix(prefix).lower() not in cls.model_fields:
            raise SlicewiseError("bad_request", f"{name}: there is no such setting of {whose}.")
    token = _file_values.set(read_yaml(file) if file else {})
    try:
        return cls(_env_prefix=prefix, **flags)  # type: ignore[call-arg]
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"]) or "settings"
        what = {"extra_forbidden": "there is no such setting", "missing": "is required"}.get(first["type"])
        raise SlicewiseError("bad_request", f"{field}: {what or first['msg']}.") from error
    finally:
        _file_values.reset(token)


def read_yaml(path: Path) -> dict[str, Any]:
    """The mapping in a YAML 1.2 file; raises SlicewiseError `bad_request` with the place of a mistake.

    `no` is a string, `1e-3` a number, and a key that stands twice is an error.
    """
    try:
        value = YAML(typ="safe", pure=True).load(path.read_text())
    except (OSError, UnicodeDecodeError) as error:
        raise SlicewiseError("bad_request", f"{path}: cannot be read ({error}).") from error
    except YAMLError as error:
        raise SlicewiseError("bad_request", f"{path}: is not valid YAML ({' '.join(str(error).split())}).") from error
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise SlicewiseError("bad_request", f"{path}: must be a mapping of keys to values.")
    return value


def write_yaml(path: Path, values: Mapping[str, Any]) -> None:
    """Write a mapping as YAML for its owner's eyes, replacing the file in one step."""
    fresh = path.with_suffix(".tmp")
    yaml = YAML(typ="safe", pure=True)
    yaml.default_flow_style, yaml.width = False, 4096  # one key a line, for people
    fresh.touch(mode=0o600)
    with fresh.open("w") as file:
        yaml.dump(dict(values), file)
    fresh.replace(path)


def _flags(cls: type[ServiceSettings], arguments: Sequence[str]) -> dict[str, Any]:
    flags: dict[str, Any] = {}
    rest = list(arguments)
    while rest:
        flag = rest.pop(0)
        if not flag.startswith("--"):
            raise SlicewiseError("bad_request", f"{flag}: flags are written --key value.")
        name, equals, text = flag[2:].partition("=")
        key = name.replace("-", "_")
        if key != "config" and key not in cls.model_fields:
            raise SlicewiseError("bad_request", f"--{name}: there is no such setting.")
        if not equals:
            if not rest:
                raise SlicewiseError("bad_request", f"--{name}: needs a value.")
            text = rest.pop(0)
        flags[key] = _plain(text) if key != "config" else text
    return flags


def _plain(text: str) -> Any:
    """Lists and objects are written as JSON; everything else is text that the key's type converts."""
    if text[:1] in ("[", "{"):
        try:
            return json.loads(text)
        except ValueError:
            return text
    return text
