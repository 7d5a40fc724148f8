"""What a deploy request says: the FunctionDeployment of OpenFaaS, checked field by field.

Everything that is wrong is a 400 with one sentence that begins with the field. Unknown fields are
ignored, as every OpenFaaS gateway does: clients of several ages send `network` and `registryAuth`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gateway.core import quantities
from gateway.core.bodies import optional_text, refuse
from gateway.core.names import Namespaces, check_function_name, is_secret_name
from proto.types.identity import FunctionKey

GPU_RESOURCES = ("nvidia.com/gpu", "amd.com/gpu", "intel.com/gpu")
_RESOURCES = ("memory", "cpu", *GPU_RESOURCES)
_ENVIRONMENT_NAME = re.compile(r"[A-Za-z_.-][A-Za-z0-9_.-]*")
_MAX_IMAGE = 512


@dataclass(frozen=True)
class Deployment:
    """One accepted FunctionDeployment. Maps are kept as they were sent; null is empty."""

    key: FunctionKey
    image: str
    env_process: str = ""
    env_vars: dict[str, str] = field(default_factory=dict)
    constraints: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()
    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    limits: dict[str, str] = field(default_factory=dict)
    requests: dict[str, str] = field(default_factory=dict)
    read_only: bool = False

    def as_json(self) -> dict[str, Any]:
        """The wire form, with empty fields left out; `parse` reads it back."""
        document: dict[str, Any] = {
            "service": self.key.name,
            "namespace": self.key.namespace,
            "image": self.image,
            "envProcess": self.env_process,
            "envVars": self.env_vars,
            "constraints": list(self.constraints),
            "secrets": list(self.secrets),
            "labels": self.labels,
            "annotations": self.annotations,
            "limits": self.limits,
            "requests": self.requests,
            "readOnlyRootFilesystem": self.read_only,
        }
        return {name: value for name, value in document.items() if value}


def parse(body: Mapping[str, Any], namespaces: Namespaces) -> Deployment:
    """The deployment in a request's JSON object; raises SlicewiseError `bad_function` or `bad_namespace`."""
    namespace = namespaces.resolve(optional_text(body, "namespace"))
    name = optional_text(body, "service")
    if not name:
        raise refuse("service", "is required: the function's name")
    image = optional_text(body, "image")
    if not image or not image.strip():
        raise refuse("image", "is required")
    if len(image) > _MAX_IMAGE or not image.isprintable():
        raise refuse("image", f"must be at most {_MAX_IMAGE} printable characters")
    read_only = body.get("readOnlyRootFilesystem")
    if read_only is not None and not isinstance(read_only, bool):
        raise refuse("readOnlyRootFilesystem", "must be true or false")
    return Deployment(
        key=FunctionKey(namespace, check_function_name("service", name)),
        image=image.strip(),
        env_process=optional_text(body, "envProcess") or "",
        env_vars=_environment(body),
        constraints=_texts(body, "constraints"),
        secrets=_secrets(body),
        labels=_text_map(body, "labels"),
        annotations=_text_map(body, "annotations"),
        limits=_resources(body, "limits"),
        requests=_resources(body, "requests"),
        read_only=bool(read_only),
    )


def _texts(body: Mapping[str, Any], name: str) -> tuple[str, ...]:
    given = body.get(name)
    if given is None:
        return ()
    if not isinstance(given, list) or not all(isinstance(item, str) for item in given):
        raise refuse(name, "must be a list of strings")
    return tuple(given)


def _text_map(body: Mapping[str, Any], name: str) -> dict[str, str]:
    given = body.get(name)
    if given is None:
        return {}
    if not isinstance(given, dict):
        raise refuse(name, "must be an object of strings")
    for key, value in given.items():
        if not isinstance(value, str):
            raise refuse(f"{name}.{key}", 'must be a string; put the value in quotes, as in "true"')
    return dict(given)


def _environment(body: Mapping[str, Any]) -> dict[str, str]:
    variables = _text_map(body, "envVars")
    for key, value in variables.items():
        if not _ENVIRONMENT_NAME.fullmatch(key):
            raise refuse(f"envVars.{key[:80]}", "is no valid name of an environment variable")
        if "\0" in value:
            raise refuse(f"envVars.{key}", "holds a NUL byte, which no environment can")
    return variables


def _secrets(body: Mapping[str, Any]) -> tuple[str, ...]:
    names = _texts(body, "secrets")
    for name in names:
        if not is_secret_name(name):
            raise refuse("secrets", f"{name[:80]!r} is no valid name of a secret")
    return tuple(dict.fromkeys(names))


def _resources(body: Mapping[str, Any], name: str) -> dict[str, str]:
    given = _text_map(body, name)
    for key, value in given.items():
        if key not in _RESOURCES or value == "":
            continue
        try:
            quantity = quantities.parse(value)
        except ValueError as error:
            raise refuse(f"{name}.{key}", str(error)) from error
        if key in GPU_RESOURCES and quantity != int(quantity):
            raise refuse(f"{name}.{key}", "must be a whole number of GPUs")
    return {key: value for key, value in given.items() if value != ""}
