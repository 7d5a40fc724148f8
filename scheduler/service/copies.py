"""A second copy of every package: a model whose only node is lost could be loaded nowhere.

The process that registered it has let go of its weights, so nobody could send it again. Nodes
are asked to pull from each other until each package is on as many as are wanted.
"""

from __future__ import annotations

import asyncio

from proto.types.models import Model
from proto.wire import convert
from proto.wire.generated import slicewise_pb2 as pb
from scheduler.service.desk import Desk

LOOK_EVERY_S = 1.0
# A node that has not got a package after so long (its disk is full, its peer slow) is asked again.
ASK_AGAIN_S = 60.0


class Copies:
    """Asks for copies; what a node holds it says itself."""

    def __init__(self, desk: Desk, wanted: int) -> None:
        self._desk = desk
        self._wanted = wanted
        self._asked: dict[tuple[str, str, str], float] = {}  # (function, digest, node) -> when

    async def keep(self) -> None:
        """Look for packages with too few copies, for ever."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            now = loop.time()
            self._asked = {key: at for key, at in self._asked.items() if now - at < ASK_AGAIN_S}
            if len(self._desk.nodes) > 1:
                for function, registered in self._desk.catalogue:
                    self._look(function, registered.model, now)

    def _look(self, function: str, model: Model, now: float) -> None:
        catalogue, nodes = self._desk.catalogue, self._desk.nodes
        holders = catalogue.holders(function, model.digest)
        asked = {node for f, digest, node in self._asked if (f, digest) == (function, model.digest)}
        missing = min(self._wanted, len(nodes)) - len({*holders, *asked})
        others = [node for node in nodes if node not in holders and node not in asked]
        if not holders or missing <= 0 or not others:
            return
        for node in sorted(others, key=lambda node: (catalogue.packages_on(node), node))[:missing]:
            self._asked[function, model.digest, node] = now
            addresses = catalogue.sources(function, model.digest, node)
            hold = pb.Hold(model=convert.model_to_wire(model), addresses=addresses)
            nodes[node].stream.send(pb.NodeDown(hold=hold))
