"""What the platform remembers of a function, and its form in etcd."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from typing import Any

from gateway.core import deployment as deployments
from gateway.core.deployment import Deployment
from gateway.core.names import Namespaces
from proto.types.identity import FunctionKey, WorkerKey

_REVISION_DIGITS = 12


@dataclass(frozen=True)
class FunctionRecord:
    """One deployed function. `generation` grows with every deploy, `created_at` is RFC 3339 in UTC.

    `gpu`: slices serve its models. `opted_out`: it has the GPU flag, but does not want that.
    `reserve`: slices of its own, "4" or "2x3g".
    """

    deployment: Deployment
    revision: str
    uid: int
    replicas: int
    generation: int
    gpu: bool
    sla_ns: int
    created_at: str
    image_digest: str
    environment_hint: str = ""
    opted_out: bool = False
    reserve: str = ""

    @property
    def key(self) -> FunctionKey:
        """Name and namespace."""
        return self.deployment.key

    @property
    def worker(self) -> str:
        """The key of what is cached on slices for this revision."""
        return str(WorkerKey(self.key, self.revision))

    def scaled(self, replicas: int) -> FunctionRecord:
        """The same function with another number of replicas."""
        return replace(self, replicas=replicas)

    def as_json(self) -> dict[str, Any]:
        """The value in etcd; `read` reads it back."""
        return {
            "deployment": self.deployment.as_json(),
            "revision": self.revision,
            "uid": self.uid,
            "replicas": self.replicas,
            "generation": self.generation,
            "gpu": self.gpu,
            "sla_ns": self.sla_ns,
            "created_at": self.created_at,
            "image_digest": self.image_digest,
            "environment_hint": self.environment_hint,
            "opted_out": self.opted_out,
            "reserve": self.reserve,
        }


def read(key: FunctionKey, value: dict[str, Any]) -> FunctionRecord:
    """The record in a value from etcd; raises SlicewiseError when the deployment in it is not valid."""
    fields = {name: value[name] for name in value if name in FunctionRecord.__dataclass_fields__}
    # The record's own namespace counts, whatever the platform's default is called today.
    where = Namespaces(key.namespace, (key.namespace,))
    return FunctionRecord(**{**fields, "deployment": deployments.parse(value["deployment"], where)})


def revision_of(deployment: Deployment, image_digest: str, gpu: bool) -> str:
    """Twelve hex digits over everything that a running process of the function was made from.

    Labels, annotations and replicas are not in it: changing them restarts nothing and keeps models warm.
    """
    parts = [
        image_digest,
        sorted(deployment.env_vars.items()),
        sorted(deployment.secrets),
        deployment.env_process,
        sorted(deployment.limits.items()),
        deployment.read_only,
        gpu,
    ]
    return hashlib.sha256(json.dumps(parts, separators=(",", ":")).encode()).hexdigest()[:_REVISION_DIGITS]
