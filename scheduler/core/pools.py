"""Which slice is in which pool: what people set, what functions reserve, and the change from one to the other.

A function that has slices of its own is served there and nowhere else, and nobody else is; while none of them is
there (their node is away), it is served by `shared`. A slice changes its pool after draining: nothing is bound to it
that the new pool does not serve, and the change happens when the last such binding has ended. Workers that the new
pool does not serve stay until room is needed, and go first then.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from proto.types.errors import SlicewiseError
from proto.types.identity import FunctionKey
from proto.types.pools import Reservation, owner_of, reserved_for, serves
from proto.types.slices import SHARED_POOL
from scheduler.core.requests import Request
from scheduler.core.slices import Slice
from scheduler.core.state import State


@dataclass(frozen=True, slots=True)
class Plan:
    """The pool of every slice, and the functions that get fewer slices than they reserve, with how many they lack."""

    pools: Mapping[str, str]
    short: Mapping[str, int]


class Pools:
    """`functions`: every GPU function with what it reserves, None if nothing, in the order in which they came."""

    def __init__(self, state: State) -> None:
        self._state = state
        self.by_hand: dict[str, str] = {}  # slice -> pool; one that was set to shared is not kept
        self.chosen: dict[str, str] = {}  # slice -> the function that got it for its annotation
        self.functions: dict[str, Reservation | None] = {}
        self.workers: dict[str, str] = {}  # function -> the worker key of its newest revision
        self.moving: dict[str, Slice] = {}  # slices that drain

    @property
    def used(self) -> bool:
        """Whether there is any pool but shared."""
        return bool(self.by_hand or self.chosen or any(self.functions.values()))

    # ------------------------------------------------------------------ what changes them

    def restore(self, by_hand: Mapping[str, str], chosen: Mapping[str, str], functions: Mapping[str, str]) -> bool:
        """Take up the pools of an earlier life."""
        self.by_hand, self.chosen = dict(by_hand), dict(chosen)
        self.functions = {name: Reservation.parse(wish) if wish else None for name, wish in functions.items()}
        return self.assign()

    def set(self, wish: Mapping[str, str]) -> bool:
        """Somebody sets the pools of these slices."""
        self.by_hand = _by_hand(self.by_hand, wish)
        return self.assign()

    def reserve(self, function: str, wish: str | None, worker: str = "") -> bool:
        """A GPU function is deployed; `wish` is its annotation, "" without one. None: slices do not serve it."""
        if wish is None:
            return self.forget(function)
        self.functions[function] = Reservation.parse(wish) if wish else None
        self.workers[function] = worker
        return self.assign()

    def forget(self, function: str) -> bool:
        """A function is deleted: its slices are shared again."""
        self.functions.pop(function, None)
        self.workers.pop(function, None)
        self.by_hand = {name: pool for name, pool in self.by_hand.items() if owner_of(pool) != function}
        return self.assign()

    def assign(self) -> bool:
        """Plan anew and begin every change that this needs; what needs no draining changes at once. Always True."""
        plan = self._plan(self.by_hand, self.functions)
        here = {name: owner_of(pool) for name, pool in plan.pools.items() if pool != self.by_hand.get(name)}
        away = {name: owner for name, owner in self.chosen.items() if name not in plan.pools}
        wanted = {**{name: owner for name, owner in away.items() if self.functions.get(owner)}, **here}
        self.chosen = {name: owner for name, owner in wanted.items() if owner}
        self.moving.clear()
        for g in self._state.slices:
            pool = plan.pools[g.id]
            g.moving_to = pool if pool != g.pool else ""
            if g.moving_to:
                self.moving[g.id] = g
        self.settle()
        self._find_homes()
        return True

    def settle(self) -> bool:
        """Slices that have drained change their pool; whether any did."""
        done = [g for g in self.moving.values() if all(serves(g.moving_to, _function(g, b)) for b in g.bound)]
        for g in done:
            g.pool, g.moving_to = g.moving_to, ""
            del self.moving[g.id]
        if done:
            self._find_homes()
        return bool(done)

    def _find_homes(self) -> None:
        there = [g for g in self._state.slices if g.lost_ns < 0 and not g.moving_to]
        self._state.at_home = frozenset(owner_of(g.pool) for g in there) - {""}

    def out_of_the_way(self) -> Iterator[list[Request]]:
        """For each pool that has an idle slice for somebody who waits: all who wait for others.

        They would hold it up, since policies bind in the order of arrival.
        """
        queue, at_home = self._state.queue, self._state.at_home
        lines: dict[str, list[Request]] = {}
        for r in queue:
            lines.setdefault(r.function if r.function in at_home else "", []).append(r)
        for waiting in lines.values() if len(lines) > 1 else ():
            firsts = {r.worker: r for r in reversed(waiting)}.values()
            if any(self._state.any_idle_for(r) for r in firsts):
                gone = set(map(id, waiting))
                yield [r for r in queue if id(r) not in gone]

    # ------------------------------------------------------------------ what is asked first

    def check_set(self, wish: Mapping[str, str]) -> None:
        """Raise SlicewiseError `bad_request` if `set` could not do just that; nothing changes."""
        for name, pool in wish.items():
            if name not in self._state.by_id:
                raise SlicewiseError("bad_request", f"{name}: there is no such slice; {self._names()}.")
            owner = owner_of(pool)
            if pool != SHARED_POOL and not owner:
                raise SlicewiseError("bad_request", f"{name}: {pool!r} is neither shared nor reserved:FUNCTION.")
            if owner and owner not in self.functions:
                raise SlicewiseError("bad_request", f"{name}: {owner} is no GPU function that is deployed.")
            if owner and not self._fits(self._state.by_id[name], owner):
                needed, there = self._needed(owner), self._state.by_id[name].spec.memory_bytes
                text = f"{name}: {owner} takes {needed:,} bytes on a slice; this one has {there:,}."
                raise SlicewiseError("bad_request", text)
        before = self._plan(self.by_hand, self.functions)
        after = self._plan(_by_hand(self.by_hand, wish), self.functions)
        for function, lacking in after.short.items():
            if lacking > before.short.get(function, 0):
                raise SlicewiseError(
                    "bad_request", f"{function} reserves {self._wish(function)} and would lack {lacking}."
                )
        for name, pool in wish.items():
            if after.pools[name] != pool:
                owner = owner_of(after.pools[name])
                text = f"{name}: {owner} reserves {self._wish(owner)} by its annotation; deploy it with another first."
                raise SlicewiseError("bad_request", text)
        self._check_shared(after.pools)

    def check_reserve(self, function: str, wish: Reservation) -> None:
        """Raise SlicewiseError `bad_request`, with what is there, if the function cannot have that; nothing changes."""
        functions = {**self.functions, function: wish}
        plan = self._plan(self.by_hand, functions)
        lacking = plan.short.get(function, 0)
        if not lacking:
            return
        sizes = [g.spec.gpcs for g in self._state.slices if plan.pools[g.id] == SHARED_POOL]
        free = ", ".join(f"{sizes.count(size)}x{size}g" for size in sorted(set(sizes))) or "none"
        stays = " (one stays shared for the other functions)" if self._shared_functions(plan.pools, functions) else ""
        raise SlicewiseError(
            "bad_request",
            f"{wish} cannot be reserved: {wish.count - lacking} of {wish.count} would be found;"
            f" shared slices left then: {free}{stays}.",
        )

    def _check_shared(self, pools: Mapping[str, str]) -> None:
        if SHARED_POOL in pools.values():
            return
        homeless = self._shared_functions(pools, self.functions)
        if homeless:
            raise SlicewiseError("bad_request", f"No slice would be shared, and {homeless[0]} needs one.")

    def _wish(self, function: str) -> str:
        wish = self.functions[function]
        return str(wish) if wish is None or wish.gpcs else f"{wish} slice{'s' if wish.count > 1 else ''}"

    def _names(self) -> str:
        names = [g.id for g in self._state.slices]
        return f"there are {', '.join(names)}" if names else "none is here now"

    # ------------------------------------------------------------------ the plan

    def _plan(self, by_hand: Mapping[str, str], functions: Mapping[str, Reservation | None]) -> Plan:
        """What people set stands; then all keep what they have; then they get more, first come, first served.

        Of the slices that have the size and room for the function's worker, one that holds it is taken first, then one
        with nothing bound, then the lowest index. While there are functions without slices of their own, nobody gets
        the last shared one.
        """
        slices = self._state.slices
        pools = {g.id: by_hand.get(g.id, SHARED_POOL) for g in slices}
        short: dict[str, int] = {}
        for function, wish in functions.items():
            if wish is not None:
                own = sum(pools[g.id] == reserved_for(function) and wish.takes(g.spec.gpcs) for g in slices)
                short[function] = max(0, wish.count - own)
        for keeps in (True, False):
            for function, lacking in short.items():
                wish = functions[function]
                assert wish is not None
                fit = [g for g in slices if pools[g.id] == SHARED_POOL and wish.takes(g.spec.gpcs)]
                fit = [g for g in fit if self._fits(g, function)]
                if keeps:
                    fit = [g for g in fit if self.chosen.get(g.id) == function]
                else:
                    spare = list(pools.values()).count(SHARED_POOL) - bool(self._shared_functions(pools, functions))
                    lacking = min(lacking, spare)
                for g in _ranked(fit, function)[: max(0, lacking)]:
                    pools[g.id] = reserved_for(function)
                    short[function] -= 1
        return Plan(pools, {function: lacking for function, lacking in short.items() if lacking})

    def _shared_functions(self, pools: Mapping[str, str], functions: Mapping[str, Reservation | None]) -> Sequence[str]:
        """Functions that reserve nothing and have no slices of their own."""
        owners = {owner_of(pool) for pool in pools.values()}
        return [name for name, wish in functions.items() if wish is None and name not in owners]

    def _needed(self, function: str) -> int:
        """Bytes of its worker as far as they are known; what is not is no reason against a slice."""
        worker = self.workers.get(function)
        return self._state.estimates.held_bytes(worker) if worker else 0

    def _fits(self, g: Slice, function: str) -> bool:
        return self._needed(function) <= g.spec.memory_bytes

    def document(self) -> dict[str, dict[str, str]]:
        """What `restore` takes."""
        wishes = {name: str(wish) if wish is not None else "" for name, wish in self.functions.items()}
        return {"by_hand": dict(self.by_hand), "chosen": dict(self.chosen), "functions": wishes}


def pool_named(text: str) -> str:
    """A pool as people write it (a function without its namespace is of the default one) by its full name."""
    owner = owner_of(text)
    return reserved_for(str(FunctionKey.parse(owner))) if owner else text


def _by_hand(before: Mapping[str, str], wish: Mapping[str, str]) -> dict[str, str]:
    return {name: pool for name, pool in {**before, **wish}.items() if pool != SHARED_POOL}


def _ranked(slices: Sequence[Slice], function: str) -> list[Slice]:
    def rank(g: Slice) -> tuple[bool, bool, bool, int]:
        holds = any(worker.rpartition("@")[0] == function for worker in g.held)
        return g.lost_ns >= 0, not holds, bool(g.bound), g.index

    return sorted(slices, key=rank)


def _function(g: Slice, binding_id: str) -> str:
    return g.bound[binding_id].request.worker.rpartition("@")[0]
