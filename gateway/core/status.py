"""FunctionStatus as OpenFaaS clients parse it.

Their traps, each seen with a real client: `createdAt` must be RFC 3339 or absent; `replicas` is a
whole number and zero is absent; empty `envVars`, `requests` and `limits` must be absent, not `{}`;
limits come back as they were sent; the label `faas_function` is always there.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from gateway.core import gpu
from gateway.core.records import FunctionRecord

# Why a replica is not ready goes to `describe` as an annotation: FunctionStatus has no field for it.
WHY_ANNOTATION = gpu.WHY
_MAX_WHY = 2000


@dataclass(frozen=True)
class ReplicaFacts:
    """What a provider knows of one replica. `status` is starting, ready, failed or stopping."""

    id: str
    address: str
    status: str
    generation: int
    why: str = ""
    restarts: int = 0
    cpu_millicores: float = 0.0
    memory_bytes: int = 0


def render(
    record: FunctionRecord,
    replicas: Iterable[ReplicaFacts],
    invocations: float = 0.0,
    with_usage: bool = False,
) -> dict[str, Any]:
    """The JSON object of one function."""
    facts = tuple(replicas)
    deployment = record.deployment
    annotations = dict(deployment.annotations)
    # Whoever said so: a limit, a variable, the image.
    if (record.gpu or record.opted_out) and gpu.FLAG not in deployment.labels:
        annotations.setdefault(gpu.FLAG, "true")
    if record.opted_out:
        annotations[gpu.INTERPOSE] = "false"
    why = _why(record, facts)
    if why:
        annotations[WHY_ANNOTATION] = why
    document: dict[str, Any] = {
        "name": record.key.name,
        "namespace": record.key.namespace,
        "image": deployment.image,
        "labels": {**deployment.labels, "faas_function": record.key.name},
        "annotations": annotations,
        "invocationCount": invocations,
        "createdAt": record.created_at,
    }
    optional: dict[str, Any] = {
        "envProcess": deployment.env_process,
        "envVars": deployment.env_vars,
        "constraints": list(deployment.constraints),
        "secrets": list(deployment.secrets),
        "limits": deployment.limits,
        "requests": deployment.requests,
        "readOnlyRootFilesystem": deployment.read_only,
        "replicas": record.replicas,
        "availableReplicas": min(record.replicas, sum(fact.status == "ready" for fact in facts)),
    }
    document.update({name: value for name, value in optional.items() if value})
    if with_usage and facts:
        document["usage"] = {
            "cpu": sum(fact.cpu_millicores for fact in facts),
            "totalMemoryBytes": float(sum(fact.memory_bytes for fact in facts)),
        }
    return document


def _why(record: FunctionRecord, facts: tuple[ReplicaFacts, ...]) -> str:
    found = ""
    # One that is ready may have a reason, too: it serves, but not as its owner thinks.
    for fact in sorted(facts, key=lambda fact: fact.status == "ready"):
        if fact.why:
            restarts = f" ({fact.restarts} restarts)" if fact.restarts and fact.status != "ready" else ""
            found = f"{fact.why[:_MAX_WHY]}{restarts}"
            break
    ready = [fact.generation >= record.generation for fact in facts if fact.status == "ready"]
    if ready and not any(ready):
        return f"The version before this one still answers. {found or 'This one is starting.'}"
    return found
