"""Pools of a running scheduler: taken up from etcd, changed by people and by deployments, kept in etcd.

Which slice goes where, and when, is scheduler.core.pools' decision.
"""

from __future__ import annotations

import json
import logging
from typing import Any

from datastore import keys
from datastore.values import Value
from proto.types.errors import SlicewiseError
from proto.types.pools import Reservation
from scheduler.core import events as ev
from scheduler.core.pools import pool_named
from scheduler.service.desk import Desk
from scheduler.service.pen import Pen

log = logging.getLogger(__name__)


class Pooling:
    """One for a scheduler; the leader alone writes."""

    def __init__(self, desk: Desk, pen: Pen) -> None:
        self._desk = desk
        self._pen = pen
        self._noted: Value = {}
        self._read = False  # before, what is kept in etcd may be more than what is known here

    def restore(self, value: Value | None) -> None:
        """Take up what an earlier leader kept; before nodes are expected, so that slices keep their pools."""
        if value is None:
            return
        try:
            by_hand, chosen, functions = (dict(value[name]) for name in ("by_hand", "chosen", "functions"))
            for wish in filter(None, functions.values()):
                Reservation.parse(wish)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            log.error("the stored pools cannot be read, all slices are shared: %r", error)
            return
        by_hand |= self._desk.core.pools.by_hand  # set while etcd was away
        self._desk.tell(lambda now: ev.PoolsRestored(now, by_hand, chosen, functions))

    def deployed(self, function: str) -> None:
        """A function was deployed or changed."""
        known, before = self._desk.catalogue.functions[function], self._desk.core.pools.functions
        wish = known.reserve
        if not known.gpu:
            if function in before:
                self._desk.tell(lambda now: ev.FunctionReserves(now, function, None))
            return
        try:
            if wish:
                wish = str(Reservation.parse(wish))
        except ValueError as error:
            log.error("%s reserves nothing: %s", function, error)
            wish = ""
        worker = f"{function}@{known.revision}"
        same = function in before and str(before[function] or "") == wish
        if not same or self._desk.core.pools.workers.get(function) != worker:
            self._desk.tell(lambda now: ev.FunctionReserves(now, function, wish, worker))

    def all_deployed(self) -> None:
        """Everything was read: every function is known now, and slices of others are shared again."""
        self._read = True
        for function in self._desk.catalogue.functions:
            self.deployed(function)
        for function in set(self._desk.core.pools.functions) - set(self._desk.catalogue.functions):
            self._desk.tell(lambda now, gone=function: ev.FunctionDeleted(now, gone))  # type: ignore[misc]

    # ------------------------------------------------------------------ what people ask

    def pools(self) -> dict[str, str]:
        """Slice id -> pool as it is now; a slice that drains is in its old one."""
        return {g.id: g.pool for g in self._desk.core.state.slices}

    def set(self, text: str) -> dict[str, str]:
        """`{slice id: pool}`; the pools then. Raises SlicewiseError `bad_request`, and nothing has changed."""
        wish = {name: pool_named(pool) for name, pool in _texts(text).items()}
        self._desk.core.pools.check_set(wish)
        self._desk.tell(lambda now: ev.PoolsSet(now, wish))
        self.note()
        return self.pools()

    def check(self, text: str) -> dict[str, str]:
        """`{"function", "reserve"}`: raises SlicewiseError `bad_request` if it cannot have that."""
        asked = _texts(text)
        try:
            function, wish = asked["function"], Reservation.parse(asked["reserve"])
        except (KeyError, ValueError) as error:
            raise SlicewiseError("bad_request", f"A reservation names a function and its slices: {error}.") from error
        self._desk.core.pools.check_reserve(function, wish)
        return asked

    def note(self) -> None:
        """Write what changed, but nothing before all was read."""
        if not self._read:
            return
        now: Value = self._desk.core.pools.document()
        if now != self._noted:
            self._noted = now
            self._pen.write(keys.POOLS, now, soon=True)


def _texts(text: str) -> dict[str, str]:
    try:
        given: Any = json.loads(text)
    except ValueError as error:
        raise SlicewiseError("bad_request", "Pools are written as JSON.") from error
    if not isinstance(given, dict) or not all(isinstance(value, str) for value in given.values()):
        raise SlicewiseError("bad_request", 'Pools are an object of slices and pools, {"SLICE": "POOL"}.')
    return given
