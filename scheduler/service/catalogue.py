"""Which functions and models there are, who holds which package, and which packages are still wanted.

A digest belongs to a function and to the revisions of it that registered it. Of each function the two
newest revisions are kept, so that a rollback is warm; what neither of them needs may be deleted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from proto.types.errors import SlicewiseError
from proto.types.identity import WorkerKey
from proto.types.models import Model

KEPT_REVISIONS = 2


@dataclass(frozen=True, slots=True)
class Function:
    """What the scheduler needs of a deployed function."""

    uid: int
    revision: str
    sla_ns: int = 0
    gpu: bool = True  # slices serve it
    reserve: str = ""  # slices of its own: "4", "2x3g"


@dataclass(slots=True)
class Registered:
    """One model of a function, and the worker keys that have it, newest last."""

    model: Model
    workers: list[str] = field(default_factory=list)


class Catalogue:
    """Functions by NAME.NAMESPACE and models by (function, digest)."""

    def __init__(self) -> None:
        self.functions: dict[str, Function] = {}
        self.watched = False  # functions are watched: one that is not here is not deployed, or the news is under way
        self.complete = False  # functions and models were read once, so what is not here is not wanted
        self._models: dict[str, dict[str, Registered]] = {}
        self._revisions: dict[str, list[str]] = {}  # function -> worker keys, newest last
        self._nodes: dict[str, set[tuple[str, str]]] = {}  # node -> (function or "", digest) of what it holds
        self._doors: dict[str, str] = {}  # node -> address from which peers pull

    # ------------------------------------------------------------------ functions

    def deploy(self, function: str, record: dict[str, Any]) -> None:
        """A function was deployed or changed (its record in etcd)."""
        revision = str(record.get("revision", ""))
        self.functions[function] = Function(
            uid=int(record.get("uid", 0) or 0),
            revision=revision,
            sla_ns=int(record.get("sla_ns", 0) or 0),
            gpu=bool(record.get("gpu", True)),
            reserve=str(record.get("reserve", "") or ""),
        )
        self._newest(function, f"{function}@{revision}")

    def remove(self, function: str) -> list[str]:
        """A function was deleted; the digests that it had."""
        self.functions.pop(function, None)
        self._revisions.pop(function, None)
        return list(self._models.pop(function, {}))

    # ------------------------------------------------------------------ models

    def register(self, model: Model) -> Registered:
        """A model is known from now on; raises SlicewiseError `bad_request` for a worker key that is none."""
        try:
            worker = WorkerKey.parse(model.worker)
        except ValueError as error:
            raise SlicewiseError("bad_request", str(error)) from error
        function = str(worker.function)
        models = self._models.setdefault(function, {})
        known = models.setdefault(model.digest, Registered(model))
        known.model = model
        if model.worker in known.workers:
            known.workers.remove(model.worker)
        known.workers.append(model.worker)
        self._newest(function, model.worker)
        return known

    def restore(self, function: str, record: dict[str, Any]) -> None:
        """Take up a model's record of an earlier life."""
        fields = dict(record)
        workers = [str(worker) for worker in fields.pop("workers", [])]
        fields["distributions"] = tuple((name, version) for name, version in fields.get("distributions", ()))
        model = Model(**fields)
        self._models.setdefault(function, {})[model.digest] = Registered(model, workers or [model.worker])
        for worker in workers or [model.worker]:
            known = self._revisions.setdefault(function, [])
            if worker not in known:  # the deployed revision, read from its own record, stays the newest
                known.insert(0, worker)

    def models_of(self, worker: str) -> list[Model]:
        """The models that a worker key loads, in the order of their digests."""
        models = self._models.get(worker.rpartition("@")[0], {})
        return [known.model for _, known in sorted(models.items()) if worker in known.workers]

    def keeps(self, worker: str) -> bool:
        """Whether a worker key is one of the kept revisions of a deployed function, as far as that is known."""
        function = worker.rpartition("@")[0]
        if not self.complete:
            return True
        return function in self.functions and worker in self._revisions.get(function, ())

    def __iter__(self) -> Any:
        """(function, Registered) of all models."""
        return ((function, known) for function, models in self._models.items() for known in models.values())

    def _newest(self, function: str, worker: str) -> None:
        known = self._revisions.setdefault(function, [])
        deployed = self.functions.get(function)
        if worker in known:
            known.remove(worker)
        known.append(worker)
        if deployed is not None and deployed.revision:  # a replica of an old revision may register late
            current = f"{function}@{deployed.revision}"
            if current in known:
                known.remove(current)
                known.append(current)

    def prune(self, function: str) -> tuple[list[Registered], list[str], list[str]]:
        """Let go of old revisions: (records that changed, digests that nothing needs, worker keys gone)."""
        known = self._revisions.get(function, [])
        gone, self._revisions[function] = known[:-KEPT_REVISIONS], known[-KEPT_REVISIONS:]
        if not gone:
            return [], [], []
        changed, dropped = [], []
        models = self._models.get(function, {})
        for digest, registered in list(models.items()):
            left = [worker for worker in registered.workers if worker not in gone]
            if not left:
                del models[digest]
                dropped.append(digest)
            elif len(left) < len(registered.workers):
                registered.workers = left
                changed.append(registered)
        return changed, dropped, gone

    # ------------------------------------------------------------------ packages

    def wanted(self) -> list[str]:
        """Digests that some deployed function refers to, sorted."""
        return sorted({digest for models in self._models.values() for digest in models})

    def kept(self) -> list[str]:
        """Worker keys of the kept revisions of deployed functions, sorted."""
        return sorted(key for function in self.functions for key in self._revisions.get(function, ()))

    def stored(self, node: str, digests: Sequence[str], functions: Sequence[str], whole: bool) -> None:
        """A node holds these packages (`whole`: these and no others). A package belongs to one function;
        a node that does not say whose they are leaves that open."""
        owners = functions if len(functions) == len(digests) else [""] * len(digests)
        held = set(zip(owners, digests, strict=True))
        self._nodes[node] = held if whole else self._nodes.get(node, set()) | held

    def node_here(self, node: str, address: str) -> None:
        """Peers can pull from this node at `address`."""
        self._doors[node] = address

    def node_gone(self, node: str) -> None:
        """Nobody can pull from this node now."""
        self._doors.pop(node, None)
        self._nodes.pop(node, None)

    def is_stored(self, function: str, digest: str) -> bool:
        """Whether some node that is here certainly holds the function's own package."""
        return any((function, digest) in held for held in self._nodes.values())

    def holders(self, function: str, digest: str) -> list[str]:
        """The nodes that certainly hold the function's own package."""
        return [node for node, held in self._nodes.items() if (function, digest) in held]

    def packages_on(self, node: str) -> int:
        """How many packages a node holds."""
        return len(self._nodes.get(node, ()))

    def sources(self, function: str, digest: str, beside: str) -> list[str]:
        """Addresses from which a node (`beside`) may pull the function's package."""
        return [
            address
            for node, address in self._doors.items()
            if node != beside
            and address
            and not self._nodes.get(node, set()).isdisjoint({(function, digest), ("", digest)})
        ]
