"""stack.yml as faas-cli reads it: the same keys, environment substitution, every scalar a string.

Unknown keys raise no error, since stack files carry keys of many tools. One difference is on
purpose: `limits: nvidia.com/gpu`, which faas-cli drops on its way, is sent.
"""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from proto.types.errors import SlicewiseError

_PROVIDERS = ("openfaas", "faas", "")
_VERSIONS = ("1.0", "")
# ${NAME}, ${NAME:-default}, ${NAME-default}; $$ stands for a dollar sign.
_VARIABLE = re.compile(r"\$\$|\$\{([A-Za-z_][A-Za-z0-9_]*)(?:(:?[-=])([^}]*))?\}")


def substitute(text: str, environment: Mapping[str, str]) -> str:
    """Replace variables; one that is not set and has no default becomes nothing."""

    def value(match: re.Match[str]) -> str:
        if match[0] == "$$":
            return "$"
        name, how, default = match[1], match[2], match[3] or ""
        given = environment.get(name)
        if how is None:
            return given or ""
        # With a colon an empty variable counts as not set.
        missing = given is None or (how.startswith(":") and not given)
        return default if missing else str(given)

    return _VARIABLE.sub(value, text)


def read(path: Path, substituting: bool = True) -> dict[str, Any]:
    """The document; raises SlicewiseError `bad_request` with the place of a mistake."""
    try:
        text = path.read_text()
        if substituting:
            text = substitute(text, os.environ)
        document = YAML(typ="base", pure=True).load(text)
    except (OSError, UnicodeDecodeError) as error:
        raise SlicewiseError("bad_request", f"{path}: cannot be read ({error}).") from error
    except YAMLError as error:
        raise SlicewiseError("bad_request", f"{path}: is not valid YAML ({' '.join(str(error).split())}).") from error
    merged = _merged(document or {})
    if not isinstance(merged, dict):
        raise SlicewiseError("bad_request", f"{path}: must be a mapping of keys to values.")
    provider = _mapping(path, "provider", merged.get("provider"))
    if provider.get("name", "") not in _PROVIDERS:
        raise SlicewiseError("bad_request", f"{path}: provider.name must be openfaas, not {provider['name']!r}.")
    if merged.get("version", "") not in _VERSIONS:
        raise SlicewiseError("bad_request", f"{path}: version must be 1.0, not {merged['version']!r}.")
    return merged


def gateway_of(path: Path) -> str:
    """The gateway that a stack file names, "" if none."""
    return str(_mapping(path, "provider", read(path).get("provider")).get("gateway", ""))


def deployments(
    path: Path, pattern: str = "*", environment: Mapping[str, str] | None = None, substituting: bool = True
) -> list[dict[str, Any]]:
    """A deploy request for each function whose name matches `pattern`; `environment` wins over the file.

    Raises SlicewiseError `bad_request` naming function and key.
    """
    functions = _mapping(path, "functions", read(path, substituting).get("functions"))
    chosen = {name: given for name, given in functions.items() if fnmatch.fnmatchcase(name, pattern)}
    if not chosen:
        what = f"no function matches {pattern}" if functions else "there are no functions in it"
        raise SlicewiseError("bad_request", f"{path}: {what}.")
    return [_deployment(path, name, given, environment or {}) for name, given in chosen.items()]


def _deployment(path: Path, name: str, given: Any, environment: Mapping[str, str]) -> dict[str, Any]:
    function = _mapping(path, f"functions.{name}", given)
    where = f"functions.{name}"
    if not function.get("image"):
        raise SlicewiseError("bad_request", f"{path}: {where}.image is required.")
    variables = _strings(path, f"{where}.environment", function.get("environment"))
    for file in _list(path, f"{where}.environment_file", function.get("environment_file")):
        variables |= _environment_file(path, file)
    request = {
        "service": name,
        "image": function["image"],
        "namespace": function.get("namespace", ""),
        "envProcess": function.get("fprocess", ""),
        "envVars": {**variables, **environment},
        "constraints": _list(path, f"{where}.constraints", function.get("constraints")),
        "secrets": _list(path, f"{where}.secrets", function.get("secrets")),
        "labels": _strings(path, f"{where}.labels", function.get("labels")),
        "annotations": _strings(path, f"{where}.annotations", function.get("annotations")),
        "limits": _strings(path, f"{where}.limits", function.get("limits")),
        "requests": _strings(path, f"{where}.requests", function.get("requests")),
        "readOnlyRootFilesystem": function.get("readonly_root_filesystem", "") == "true",
    }
    return {key: value for key, value in request.items() if value}


def _environment_file(stack: Path, name: str) -> dict[str, str]:
    file = Path(name)
    if not file.exists() and not file.is_absolute():
        file = stack.parent / name
    try:
        document = YAML(typ="base", pure=True).load(file.read_text()) or {}
    except (OSError, YAMLError, UnicodeDecodeError) as error:
        raise SlicewiseError("bad_request", f"{stack}: environment_file {name} cannot be read ({error}).") from error
    return _strings(file, "environment", _mapping(file, "the file", document).get("environment"))


def _mapping(path: Path, where: str, value: Any) -> dict[str, Any]:
    if value in (None, ""):
        return {}
    if not isinstance(value, dict):
        raise SlicewiseError("bad_request", f"{path}: {where} must be a mapping of keys to values.")
    return value


def _strings(path: Path, where: str, value: Any) -> dict[str, str]:
    found = _mapping(path, where, value)
    for key, item in found.items():
        if not isinstance(item, str):
            raise SlicewiseError("bad_request", f"{path}: {where}.{key} must be a single value.")
    return dict(found)


def _list(path: Path, where: str, value: Any) -> list[str]:
    if value in (None, ""):
        return []
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise SlicewiseError("bad_request", f"{path}: {where} must be a list.")
    return value


def _merged(value: Any) -> Any:
    """The document with YAML's merge keys (`<<`) carried out; a key of its own wins over a merged one."""
    if isinstance(value, list):
        return [_merged(item) for item in value]
    if not isinstance(value, dict):
        return value
    found: dict[str, Any] = {}
    sources = value.get("<<", [])
    for source in reversed(sources if isinstance(sources, list) else [sources]):
        found |= _merged(source) if isinstance(source, dict) else {}
    return found | {key: _merged(item) for key, item in value.items() if key != "<<"}
