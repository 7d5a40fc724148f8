"""What the gateway wants of one function, understood and checked: the wire's ReplicaSet as facts.

Two wishes with one fingerprint want the same processes, whatever their generation or number of replicas;
only a new fingerprint makes a rolling update.
"""

from __future__ import annotations

import hashlib
import json
import re
import shlex
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from functions.service import bundles, durations
from functions.service.bundles import Image
from gateway.core import quantities
from proto.types.errors import SlicewiseError
from proto.types.identity import FunctionKey
from proto.wire.generated import slicewise_pb2 as pb

DEFAULT_TIMEOUT_S = 30.0  # of-watchdog's read, write and exec timeouts
MIN_THREADS, MAX_THREADS = 32, 128
_SECRET_NAME = re.compile(r"[a-z0-9A-Z]([-._a-z0-9A-Z]{0,251}[a-z0-9A-Z])?")
_FREE_PORT = re.compile(r":(0|\$PORT|\$\{PORT\})(?=/|$)")


@dataclass(frozen=True)
class Wish:
    """Times are seconds. `command` is the function's own server, empty for the template."""

    function: FunctionKey
    image: Image
    replicas: int
    revision: str
    generation: int
    uid: int
    gpu: bool
    credential: str
    fingerprint: str
    environment: dict[str, str]
    secrets: dict[str, bytes]
    command: list[str] = field(default_factory=list)
    upstream_url: str = ""
    max_inflight: int = 0
    read_timeout_s: float = DEFAULT_TIMEOUT_S
    write_timeout_s: float = DEFAULT_TIMEOUT_S
    exec_timeout_s: float = DEFAULT_TIMEOUT_S
    memory_bytes: int = 0  # limits.memory; 0: none

    @property
    def own_port(self) -> bool:
        """Whether its server listens on one port that it chose itself, so that two replicas would collide."""
        return bool(self.command) and not _FREE_PORT.search(self.upstream_url)

    @property
    def threads(self) -> int:
        """Threads of the template's server: all that may be in flight, within reason."""
        return min(MAX_THREADS, max(MIN_THREADS, self.max_inflight))

    def port(self) -> int:
        """The port in `upstream_url`, 0 if any free one will do."""
        found = re.search(r":(\d+)(?=/|$)", self.upstream_url)
        return int(found[1]) if found else 0 if _FREE_PORT.search(self.upstream_url) else 80


def understand(message: pb.ReplicaSet, images_dir: Path) -> Wish:
    """Check a ReplicaSet; raises SlicewiseError with a sentence for the person who deployed it."""
    deployment = _deployment(message.deployment_json)
    name = str(deployment.get("image") or "")
    pinned = str(deployment.get("image_digest") or "").removeprefix("sha256:")
    image = bundles.load(pinned, images_dir) if pinned else bundles.resolve(name, images_dir)
    environment = image.environment | _texts(deployment, "envVars")
    command, upstream_url = _server(image, deployment, environment)
    for secret in message.secrets:
        if not _SECRET_NAME.fullmatch(secret) or ".." in secret:
            raise SlicewiseError("bad_secret", f"{secret!r} is no name of a secret.")
    memory_bytes = _memory(deployment)
    facts: list[Any] = [image.digest, environment, command, upstream_url, message.revision, message.uid, message.gpu]
    facts += [
        memory_bytes,
        message.credential,
        sorted((key, hashlib.sha256(value).hexdigest()) for key, value in message.secrets.items()),
    ]
    try:
        max_inflight = max(0, int(environment.get("max_inflight") or 0))
    except ValueError as error:
        raise SlicewiseError("bad_function", "max_inflight must be a whole number.") from error
    write_timeout_s = durations.seconds(environment.get("write_timeout"), DEFAULT_TIMEOUT_S)
    if write_timeout_s <= 0:
        raise SlicewiseError("bad_function", "write_timeout must be above zero.")
    return Wish(
        function=FunctionKey(message.function.namespace, message.function.name),
        image=image,
        replicas=max(0, message.replicas),
        revision=message.revision,
        generation=message.generation,
        uid=message.uid,
        gpu=message.gpu,
        credential=message.credential,
        fingerprint=hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest(),
        environment=environment,
        secrets=dict(message.secrets),
        command=command,
        upstream_url=upstream_url,
        max_inflight=max_inflight,
        read_timeout_s=durations.seconds(environment.get("read_timeout"), DEFAULT_TIMEOUT_S),
        write_timeout_s=write_timeout_s,
        exec_timeout_s=durations.seconds(environment.get("exec_timeout"), DEFAULT_TIMEOUT_S),
        memory_bytes=memory_bytes,
    )


def _deployment(text: str) -> dict[str, Any]:
    try:
        deployment = json.loads(text)
    except ValueError as error:
        raise SlicewiseError("bad_function", "The deployment is not JSON.") from error
    if not isinstance(deployment, dict):
        raise SlicewiseError("bad_function", "The deployment is not a JSON object.")
    return deployment


def _texts(deployment: dict[str, Any], key: str) -> dict[str, str]:
    given = deployment.get(key) or {}
    if not isinstance(given, dict):
        raise SlicewiseError("bad_function", f"{key} must map names to values.")
    return {str(name): "" if value is None else str(value) for name, value in given.items()}


def _memory(deployment: dict[str, Any]) -> int:
    text = _texts(deployment, "limits").get("memory", "")
    try:
        return int(quantities.parse(text)) if text else 0
    except ValueError as error:
        raise SlicewiseError("bad_function", f"limits.memory: {error}.") from error


def _server(image: Image, deployment: dict[str, Any], environment: dict[str, str]) -> tuple[list[str], str]:
    """(command, upstream_url) of the function's own server, ([], "") for the template."""
    given = deployment.get("envProcess") or environment.pop("function_process", "") or environment.get("fprocess", "")
    environment.pop("fprocess", None)
    upstream = environment.pop("http_upstream_url", "") or environment.pop("upstream_url", "") or image.upstream_url
    environment.pop("upstream_url", None)
    mode = environment.pop("mode", "") or image.mode or ("http" if upstream else "streaming")
    if image.handler and (not given or given.endswith("index.py")):  # what OpenFaaS' template starts
        return [], ""
    process = str(given or image.fprocess)
    if mode != "http":
        text = f"Watchdog mode {mode} is not supported; use mode http with an upstream_url, or a handler."
        raise SlicewiseError("not_implemented", text)
    if not re.match(r"https?://[^/:]+", upstream):
        text = f"The function's own server ({process}) needs upstream_url, the address at which it listens."
        raise SlicewiseError("bad_function", text)
    try:
        command = shlex.split(process)
    except ValueError as error:
        raise SlicewiseError("bad_function", f"fprocess cannot be read: {error}.") from error
    if not command:
        raise SlicewiseError("bad_function", "fprocess is empty.")
    return command, upstream
