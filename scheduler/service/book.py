"""What the scheduler remembers in etcd, and what it reads there: functions, models, profiles, nodes, policy.

The leader alone writes models, profiles, nodes and the policy; functions are the gateway's and only
watched. All writes go through the pen, so no invocation ever waits for etcd.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from google.protobuf.json_format import ParseDict, ParseError

from datastore import keys
from datastore.store import Store
from datastore.values import Value
from proto.types.errors import SlicewiseError
from proto.types.identity import FunctionKey
from proto.types.models import Model, runs_models_of
from proto.wire import convert
from proto.wire.generated import slicewise_pb2 as pb
from scheduler.core import events as ev
from scheduler.core.policies.registry import make_policy
from scheduler.service.catalogue import Registered
from scheduler.service.desk import Desk
from scheduler.service.noding import tell_wanted
from scheduler.service.pen import Pen
from scheduler.service.pooling import Pooling
from scheduler.service.profile_records import read_profile, write_profile

log = logging.getLogger(__name__)

RETRY_S = 1.0
TIDY_EVERY_S = 3.0


class Book:
    """`known(function)` is called when a function appears, `forgotten(worker)` when a worker key is no longer kept."""

    def __init__(
        self,
        desk: Desk,
        pen: Pen,
        store: Store | None,
        snapshot: Path,
        known: Callable[[str], None],
        forgotten: Callable[[str], None],
    ) -> None:
        self._desk = desk
        self._pen = pen
        self._store = store
        self._snapshot = snapshot
        self._known = known
        self._forgotten = forgotten
        self.pooling = Pooling(desk, pen)
        self._nodes: set[str] = set()
        self._grown: set[str] = set()  # functions that may have more revisions than are kept

    # ------------------------------------------------------------------ reading

    async def open(self) -> bool:
        """Read everything once; False when etcd is away, and then functions are as they were last seen."""
        if self._store is None:
            return True
        try:
            models = await self._store.list_prefix(keys.MODELS)
            profiles = await self._store.list_prefix(keys.PROFILES)
            nodes = await self._store.list_prefix(keys.NODES)
            policy = await self._store.get(keys.POLICY)
            pools = await self._store.get(keys.POOLS)
            functions = await self._store.list_prefix(keys.FUNCTIONS)
        except SlicewiseError as error:
            log.warning("nothing can be read from etcd: %s", error)
            self._recall_functions()
            return False
        self._take_policy(policy)
        self.pooling.restore(pools)
        for key, value in profiles.items():
            self._desk.profiles.restore(read_profile(keys.last(key), value))
        for value in nodes.values():
            self._take_node(value)
        for key, value in models.items():
            function = str(keys.function_of(key))
            self._desk.catalogue.restore(function, value)
        for key, value in functions.items():
            self._desk.catalogue.deploy(str(keys.function_of(key)), value)
        for _, registered in self._desk.catalogue:
            for worker in registered.workers:
                self._desk.profiles.learn_model(registered.model, worker)
        for function in {function for function, _ in self._desk.catalogue} - set(self._desk.catalogue.functions):
            self._remove(function)  # deleted while no scheduler was here
        self.pooling.all_deployed()
        self._desk.catalogue.watched = self._desk.catalogue.complete = True
        self._remember_functions()
        tell_wanted(self._desk)
        return True

    async def watch(self, opened: bool) -> None:
        """Follow the functions for ever; read everything first, as soon as that is possible."""
        if self._store is None:
            await asyncio.Event().wait()
            return
        while not opened:
            await asyncio.sleep(RETRY_S)
            opened = await self.open()
        async for key, value in self._store.watch_prefix(keys.FUNCTIONS):
            function = str(keys.function_of(key))
            try:
                if value is None:
                    self._remove(function)
                else:
                    self._deploy(function, value)
            except (ValueError, TypeError) as error:
                log.error("the record of %s cannot be read: %s", function, error)
            self._remember_functions()

    def _take_policy(self, value: Value | None) -> None:
        if value is None:
            return
        try:
            policy = make_policy(value)
        except SlicewiseError as error:
            log.error("the stored policy is not one of ours, keeping %s: %s", self._desk.core.policy.name, error)
            return
        self._desk.tell(lambda now: ev.PolicySet(now, policy))

    def _take_node(self, value: Value) -> None:
        try:
            hello = ParseDict(value, pb.NodeHello(), ignore_unknown_fields=True)
        except ParseError as error:
            log.error("the record of a node cannot be read: %s", error)
            return
        specs = tuple(convert.spec_from_wire(spec) for spec in hello.slices)
        self._nodes.add(hello.node)
        self._desk.tell(lambda now: ev.NodeExpected(now, specs))

    def _deploy(self, function: str, value: Value) -> None:
        new = function not in self._desk.catalogue.functions
        self._desk.catalogue.deploy(function, value)
        self.pooling.deployed(function)
        self._grown.add(function)
        if new:
            self._known(function)

    def _remove(self, function: str) -> None:
        for worker in [worker for worker in self._desk.profiles.workers if worker.rpartition("@")[0] == function]:
            self._forget(worker)
        for digest in self._desk.catalogue.remove(function):
            self._pen.write(keys.model(FunctionKey.parse(function), digest), None)
        self._desk.tell(lambda now: ev.FunctionDeleted(now, function))
        tell_wanted(self._desk)

    def _remember_functions(self) -> None:
        """A file for a start while etcd is away: without it nobody would know which user a function runs as."""
        fresh = self._snapshot.with_suffix(".tmp")
        fresh.write_text(json.dumps({name: asdict(known) for name, known in self._desk.catalogue.functions.items()}))
        fresh.replace(self._snapshot)

    def _recall_functions(self) -> None:
        catalogue = self._desk.catalogue
        catalogue.watched = True
        try:
            last = json.loads(self._snapshot.read_text())
        except (OSError, ValueError):
            return
        for function, record in last.items():
            catalogue.deploy(function, record)
            self.pooling.deployed(function)

    # ------------------------------------------------------------------ writing

    def register(self, model: Model) -> bool:
        """A broker registers a model; whether some node holds its package already.

        Raises SlicewiseError `model_too_large`, with both sizes, when its tensors alone fit no slice, `unprocessable`,
        with both versions, when no node has a Python and a torch to run it.
        """
        zygotes = sorted({zygote for node in self._desk.nodes.values() for zygote in node.hello.zygotes})
        if zygotes and not any(runs_models_of(zygote, model.python, model.torch) for zygote in zygotes):
            raise SlicewiseError(
                "unprocessable",
                f"{model.class_name} needs Python {model.python} with torch {model.torch} on its slice; the nodes have"
                f" {', '.join(zygotes)} (Python/torch).",
            )
        largest = max((g.spec.memory_bytes for g in self._desk.core.state.slices), default=0)
        if largest and model.tensor_bytes > largest:
            raise SlicewiseError(
                "model_too_large",
                f"{model.class_name} has {model.tensor_bytes:,} bytes of tensors; the largest slice has {largest:,}.",
            )
        registered = self._desk.catalogue.register(model)
        self._desk.profiles.learn_model(model, model.worker)
        self._note_model(registered)
        self._grown.add(model.worker.rpartition("@")[0])
        self._desk.tell(lambda now: ev.ProfileChanged(now, model.worker))
        tell_wanted(self._desk)
        return self._desk.catalogue.is_stored(model.worker.rpartition("@")[0], model.digest)

    def set_policy(self, text: str) -> dict[str, Any]:
        """Switch to `{"name", parameters}`, keeping the queue; raises SlicewiseError `bad_policy`."""
        try:
            wish = json.loads(text)
        except ValueError as error:
            raise SlicewiseError("bad_policy", "A policy is written as JSON.") from error
        policy = make_policy(wish)
        self._desk.tell(lambda now: ev.PolicySet(now, policy))
        self._pen.write(keys.POLICY, dict(policy.parameters()), soon=True)
        return dict(policy.parameters())

    async def keep_tidy(self) -> None:
        """Every few seconds, for ever: note profiles that changed, let go of what is no longer kept.

        Old revisions go here and not at once: registrations and the news of deploys come on different
        paths, and between the two an order of revisions may be seen that never was.
        """
        profiles = self._desk.profiles
        while True:
            await asyncio.sleep(TIDY_EVERY_S)
            for function in self._grown:
                self._prune(function)
            self._grown.clear()
            self.note_profiles()
            self.pooling.note()
            profiles.changed.clear()
            self._desk.drop_stale_tokens()
            self._drop_nodes()

    def note_profiles(self) -> None:
        """Note them now."""
        for worker in list(self._desk.profiles.changed):
            if self._desk.catalogue.keeps(worker):
                self._pen.write(keys.profile(worker), write_profile(self._desk.profiles.profile(worker)))
            else:  # a call that ended after its function had gone
                self._desk.profiles.forget(worker)
                self._forgotten(worker)

    def _drop_nodes(self) -> None:
        """Nodes that did not come back in time are no longer expected at the next start either."""
        self._nodes.update(self._desk.nodes)
        here = {g.spec.node for g in self._desk.core.state.slices} | set(self._desk.nodes)
        for node in self._nodes - here:
            self._pen.write(keys.node(node), None)
        self._nodes &= here

    def _note_model(self, registered: Registered) -> None:
        function = FunctionKey.parse(registered.model.worker.rpartition("@")[0])
        record = {**asdict(registered.model), "workers": registered.workers}
        self._pen.write(keys.model(function, registered.model.digest), record, soon=True)

    def _prune(self, function: str) -> None:
        changed, dropped, gone = self._desk.catalogue.prune(function)
        for registered in changed:
            self._note_model(registered)
        for digest in dropped:
            self._pen.write(keys.model(FunctionKey.parse(function), digest), None)
        for worker in gone:
            self._forget(worker)
        if gone:
            tell_wanted(self._desk)

    def _forget(self, worker: str) -> None:
        self._desk.profiles.forget(worker)
        self._pen.write(keys.profile(worker), None)
        self._forgotten(worker)
