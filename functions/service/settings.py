"""The host's settings: flags over environment over file, unknown keys are errors."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any, NoReturn

from pydantic import Field, ValidationError
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

ENV_PREFIX = "SLICEWISE_HOST_"


class Settings(BaseSettings):
    """One function host. Times are seconds, sizes bytes."""

    model_config = SettingsConfigDict(env_prefix=ENV_PREFIX, extra="forbid")

    node: str = Field("node-1", min_length=1)  # the name of this machine to the platform
    listen: str = "127.0.0.1:0"
    state_dir: Path
    images_dir: Path
    trust: Path
    credential: Path | None = None
    scheduler: str = ""  # host:port; without it GPU functions cannot be bound late
    door_path: str = ""  # Unix socket of this node's data door
    address: str = "127.0.0.1"  # where brokers listen
    etcd: str = ""  # common keys of all services; the host keeps no state there
    etcd_user: str = ""
    etcd_password_file: Path | None = None
    cache_manager: str = ""
    log_level: str = "INFO"
    replica_start_timeout_s: float = Field(120.0, gt=0)
    backoff_first_s: float = Field(0.5, gt=0)
    backoff_limit_s: float = Field(30.0, gt=0)
    log_bytes: int = Field(8 * 1024 * 1024, ge=4096)  # of one replica, both files together
    usage_interval_s: float = Field(5.0, gt=0)

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Only what `load` gives: it has put flags over environment over file already."""
        return (init_settings,)


def load(arguments: list[str]) -> Settings:
    """Read flags, environment and --config FILE; exits 2 with one sentence when they make no sense."""
    try:
        flags = _flags(arguments)
        file = flags.pop("config", "")
        given = _file(file) if file else {}
        given |= {
            key.removeprefix(ENV_PREFIX).lower(): value
            for key, value in os.environ.items()
            if key.startswith(ENV_PREFIX)
        }
        return Settings(**(given | flags))
    except ValidationError as error:
        problems = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())
        _refuse(problems)
    except (ValueError, OSError, YAMLError) as error:
        _refuse(str(error))


def _refuse(problem: str) -> NoReturn:
    print(f"functions.service: {problem}", file=sys.stderr)
    raise SystemExit(2)


def _flags(arguments: list[str]) -> dict[str, str]:
    flags: dict[str, str] = {}
    rest = list(arguments)
    while rest:
        word = rest.pop(0)
        if not word.startswith("--"):
            raise ValueError(f"{word!r} is no flag; flags are --key VALUE or --key=VALUE")
        key, equals, value = word[2:].partition("=")
        if not equals:
            if not rest:
                raise ValueError(f"--{key} needs a value")
            value = rest.pop(0)
        flags[key.replace("-", "_")] = value
    return flags


def _file(path: str) -> dict[str, Any]:
    content = YAML(typ="safe").load(Path(path).read_text())
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise ValueError(f"{path} must hold keys and values")
    return content
