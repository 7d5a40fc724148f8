"""How many bytes a worker will hold, before anyone has measured it.

The estimate is: what was measured for exactly these models, else what the profile says, else the
tensors with a margin and what an empty worker costs. It is capped at the slice's budget as long as the
tensors themselves would fit, since only a measurement may refuse a model. A load that overruns its
reservation teaches the true size, and the next admission reserves that; so does a call that needs more than
its model, once it was measured. Emulated workers are declared: their
size is what the scenario says, whatever they hold.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import TypeVar

_Key = TypeVar("_Key")

REMEMBERED = 4096  # sets of models whose size is kept; a forgotten one costs a second load, no more
MARGIN_PERCENT = 10  # buffers and the allocator's rounding beside the tensors
SPREAD_PERCENT = 3
FIRST_CALL_PART = 4  # of the overhead: what a worker may come to hold in the first call that anyone measures
OVERRUN_PERCENT = 25  # how much more is reserved when an overrun does not say how much it needed


class Sizes:
    """Estimates for one slice. `overhead_bytes` is what a worker costs without any model."""

    def __init__(self, budget_bytes: int, overhead_bytes: int) -> None:
        self.budget_bytes = budget_bytes
        self.overhead_bytes = overhead_bytes
        self._declared: OrderedDict[str, int] = OrderedDict()
        self._tensors: OrderedDict[str, int] = OrderedDict()
        self._known: OrderedDict[tuple[str, frozenset[str]], int] = OrderedDict()
        self._hints: OrderedDict[tuple[str, frozenset[str]], int] = OrderedDict()
        self._peaks: OrderedDict[tuple[str, frozenset[str]], int] = OrderedDict()
        self._served: OrderedDict[tuple[str, frozenset[str]], int] = OrderedDict()
        self._called: OrderedDict[tuple[str, frozenset[str]], int] = OrderedDict()

    def learn_tensors(self, digest: str, tensor_bytes: int) -> None:
        """Note the size of a model's tensors."""
        if tensor_bytes > 0:
            _keep(self._tensors, digest, tensor_bytes)

    def hint(self, worker: str, digests: Iterable[str], held_bytes: int) -> None:
        """Note what the profile, perhaps of another slice, says of this set of models."""
        if held_bytes > 0:
            _keep(self._hints, (worker, frozenset(digests)), held_bytes)

    def declare(self, worker: str, held_bytes: int) -> None:
        """Fix the size of an emulated worker."""
        if held_bytes > 0:
            _keep(self._declared, worker, held_bytes)

    def is_declared(self, worker: str) -> bool:
        """Whether the worker is emulated."""
        return worker in self._declared

    def served(self, worker: str, digests: Iterable[str], held_bytes: int) -> None:
        """Note what was measured after a turn: calls make a worker hold a little more than its load did."""
        _keep(self._served, (worker, frozenset(digests)), held_bytes)

    def called(self, worker: str, digests: Iterable[str], peak_bytes: int) -> None:
        """Note the most that a worker with these models has held while it answered a call."""
        key = (worker, frozenset(digests))
        _keep(self._called, key, max(peak_bytes, self._called.get(key, 0)))

    def calls_need(self, worker: str, digests: Iterable[str]) -> int:
        """What calls of these models need, what is loaded included, by the largest that was seen; 0: none was."""
        return self._with_spread(self._called.get((worker, frozenset(digests)), 0))

    def settled(self, worker: str, digests: Iterable[str], held_bytes: int) -> int:
        """What a worker that has just been loaded will need while it serves, as far as that is known."""
        if worker in self._declared:
            return held_bytes
        wanted = frozenset(digests)
        known = self._served.get((worker, wanted))
        after = known if known is not None else held_bytes + self.overhead_bytes // FIRST_CALL_PART
        return max(held_bytes, after, self.calls_need(worker, wanted))

    def overran(self, worker: str, digests: Iterable[str], reserve: int) -> None:
        """Note what the next load is to reserve; it may be more, while it runs, than what the worker holds later."""
        self.remember(worker, digests, reserve)
        _keep(self._peaks, (worker, frozenset(digests)), reserve)

    def remember(self, worker: str, digests: Iterable[str], held_bytes: int) -> None:
        """Note what was measured here."""
        _keep(self._known, (worker, frozenset(digests)), held_bytes)

    def tensors(self, digests: Iterable[str]) -> int:
        """Bytes of the tensors alone."""
        return sum(self._tensors.get(digest, 0) for digest in digests)

    def estimate(self, worker: str, digests: Iterable[str]) -> int:
        """Bytes to reserve; above the budget only if the models cannot fit the slice."""
        if worker in self._declared:
            return self._declared[worker]
        wanted = frozenset(digests)
        known = self._known.get((worker, wanted)) or self._hints.get((worker, wanted))
        if known is not None:
            known = max(known, self.calls_need(worker, wanted))
            return max(self._with_spread(known), self._peaks.get((worker, wanted), 0))
        tensors = self.tensors(wanted)
        if tensors > self.budget_bytes:
            return tensors
        return min(self.overhead_bytes + tensors + (tensors * MARGIN_PERCENT + 99) // 100, self.budget_bytes)

    def _with_spread(self, measured: int) -> int:
        """Two loads of one worker differ by a little; only what was measured itself may refuse it."""
        if measured > self.budget_bytes:
            return measured
        return min(measured + (measured * SPREAD_PERCENT + 99) // 100, self.budget_bytes)

    def grown(self, worker: str, digests: Iterable[str], held: Iterable[str], charge: int) -> int:
        """Bytes to reserve for a worker that has `charge` for the models `held` and is to hold `digests`."""
        wanted, there = frozenset(digests), frozenset(held)
        size = self.estimate(worker, wanted)
        if not there or worker in self._declared or (worker, wanted) in self._known:
            return max(size, charge)
        tensors = self.tensors(wanted - there)
        return max(size, charge + tensors + (tensors * MARGIN_PERCENT + 99) // 100)

    def after_overrun(self, reserved: int, needed: int) -> int:
        """The next reservation after `reserved` was passed; above the budget if there is no hope."""
        if needed > reserved + 1:  # one byte more is what a worker says that only knows it was too little
            return needed
        grown = reserved + max(1, reserved * OVERRUN_PERCENT // 100)
        return grown if reserved >= self.budget_bytes else min(grown, self.budget_bytes)


def _keep(store: OrderedDict[_Key, int], key: _Key, value: int) -> None:
    store[key] = value
    store.move_to_end(key)
    if len(store) > REMEMBERED:
        store.popitem(last=False)
