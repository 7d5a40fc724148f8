"""From the wish for one function to its replicas, one small step at a time.

`reconcile` looks at what is and what is wanted and takes the steps that are due; it runs whenever either
changes. A new fingerprint starts beside the old one, and old replicas go only as new ones become ready.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from functions.service.ground import Ground
from functions.service.outputs import FunctionLog
from functions.service.replica import Replica
from functions.service.wish import Wish
from proto.wire.generated import slicewise_pb2 as pb

log = logging.getLogger(__name__)

# One function may ask for so many processes here; the gateway's own limits are lower.
MAX_REPLICAS = 100


class Rollout:
    """One function on this host. `changed` is called after each change of any replica."""

    def __init__(self, wish: Wish, stage: Ground, changed: Callable[[], None]) -> None:
        self.wish = wish
        self.replicas: list[Replica] = []
        key = wish.function
        self.log = FunctionLog(stage.settings.state_dir / "logs" / key.namespace / key.name)
        self._stage = stage
        self._changed = changed
        self._stopping: dict[Replica, asyncio.Task[None]] = {}
        self.removed = False
        self._due = False

    def apply(self, wish: Wish) -> None:
        """Take over a wish that is not older than the present one."""
        if wish.generation < self.wish.generation and not self.removed:
            log.info("%s: generation %d is older than %d", wish.function, wish.generation, self.wish.generation)
            return
        self.removed = False
        self.wish = wish
        for replica in self.replicas:
            if replica.wish.fingerprint == wish.fingerprint:
                replica.generation = wish.generation
        self._replica_changed()

    def remove(self) -> None:
        """Stop everything; `gone` becomes true when it has ended."""
        self.removed = True
        self._replica_changed()

    @property
    def gone(self) -> bool:
        """Removed, and no process left."""
        return self.removed and not self.replicas

    async def close(self) -> None:
        """Stop all replicas without waiting for their calls."""
        self.removed = True
        for replica in self.replicas:
            self._stop(replica, 0.0)
        if self._stopping:
            await asyncio.wait([*self._stopping.values()])

    def state(self) -> pb.FunctionState:
        """What Watch tells."""
        return pb.FunctionState(
            function=pb.FunctionRef(namespace=self.wish.function.namespace, name=self.wish.function.name),
            generation=self.wish.generation,
            replicas=[
                pb.ReplicaState(
                    id=replica.id,
                    address=replica.address,
                    status=replica.status,
                    why=replica.why,
                    restarts=replica.restarts,
                    started_unix_ns=replica.started_unix_ns,
                    generation=replica.generation,
                    cpu_millicores=replica.cpu_millicores,
                    memory_bytes=replica.memory_bytes,
                )
                for replica in self.replicas
            ],
        )

    # ------------------------------------------------------------------ steps

    def _replica_changed(self) -> None:
        """Reconcile soon, once for all that changes in this moment."""
        if not self._due:
            self._due = True
            asyncio.get_running_loop().call_soon(self._reconcile)
        self._changed()

    def _reconcile(self) -> None:
        self._due = False
        self.replicas = [replica for replica in self.replicas if not replica.ended]
        running = [replica for replica in self.replicas if replica not in self._stopping]
        wanted = 0 if self.removed else min(self.wish.replicas, MAX_REPLICAS)
        if self.wish.own_port:
            wanted = min(wanted, 1)  # a second one would find its port taken
        current = [replica for replica in running if replica.wish.fingerprint == self.wish.fingerprint]
        old = [replica for replica in running if replica.wish.fingerprint != self.wish.fingerprint]
        for replica in _first_to_go(current)[: max(0, len(current) - wanted)]:
            self._stop(replica)
        ready = sum(replica.status == "ready" for replica in current)
        keep = 0 if self.wish.own_port else max(0, wanted - ready)
        for replica in old:
            if replica.status != "ready" or keep == 0:
                self._stop(replica)
            else:
                keep -= 1
        port_taken = self.wish.own_port and any(replica not in current for replica in self.replicas)
        if not port_taken:
            for _ in range(wanted - len(current)):
                self.replicas.append(Replica(self.wish, self._stage, self.log, self._replica_changed))
        self._changed()

    def _stop(self, replica: Replica, grace_s: float | None = None) -> None:
        if replica in self._stopping:
            return
        grace_s = replica.wish.write_timeout_s if grace_s is None else grace_s
        task = asyncio.create_task(replica.stop(grace_s), name=f"stop {replica.id}")
        self._stopping[replica] = task
        task.add_done_callback(lambda _: self._stopped(replica))

    def _stopped(self, replica: Replica) -> None:
        self._stopping.pop(replica, None)
        self.log.prune({replica.id for replica in self.replicas})
        self._replica_changed()


def _first_to_go(replicas: list[Replica]) -> list[Replica]:
    """Those not ready first, then the youngest."""
    return sorted(replicas, key=lambda replica: (replica.status == "ready", -replica.started_unix_ns))
