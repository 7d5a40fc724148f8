"""A small platform in virtual time around the live core: one node, GPU managers that report what they have."""

from __future__ import annotations

import itertools
from dataclasses import replace

from proto.types.placing import Place
from proto.types.slices import CachedWorker, SliceSpec, SliceState, SliceStatus, WorkerStatus
from scheduler.core import events as ev
from scheduler.core.core import SchedulerCore
from scheduler.core.estimates import Profiles
from scheduler.core.instructions import Bind, Instruction, Refuse
from scheduler.core.policies.registry import make_policy
from scheduler.core.tuning import LIVE, Tuning

MS = 1_000_000
S = 1_000_000_000
MB = 1_000_000


class Platform:
    def __init__(self, slices: int = 1, memory: int = 100 * MB, tuning: Tuning = LIVE, policy: str = "lalb") -> None:
        self.now = 10 * S
        self.profiles = Profiles()
        numbers = itertools.count(1)
        self.core = SchedulerCore(
            make_policy({"name": policy}),
            self.profiles,
            replace(tuning, start_grace_ns=0),
            make_id=lambda: f"b{next(numbers)}",
            learn=self.profiles,
        )
        self.specs = tuple(SliceSpec(f"s{i}", "n", i, 1, memory, "cpu") for i in range(slices))
        self.reports = {spec.id: SliceState(spec, 0, "shared", SliceStatus.IDLE, memory) for spec in self.specs}
        self.join()

    def do(self, event: ev.Event) -> list[Instruction]:
        return self.core.handle(event)

    def join(self) -> list[Instruction]:
        said = self.do(ev.NodeJoined(self.now, "n", self.specs))
        for spec in self.specs:
            said += self.report(spec.id)
        return said

    def report(self, slice_id: str, **changes: object) -> list[Instruction]:
        before = self.reports[slice_id]
        self.reports[slice_id] = replace(before, sequence=before.sequence + 1, **changes)  # type: ignore[arg-type]
        return self.do(ev.SliceReported(self.now, self.reports[slice_id]))

    def holds(self, slice_id: str, *workers: str, held: int = 10 * MB) -> list[Instruction]:
        cached = tuple(CachedWorker(key(w), WorkerStatus.READY, held, 0) for w in workers)
        return self.report(slice_id, workers=cached)

    def know(self, worker: str, *, turn: int = 5 * MS, load: int = 100 * MS, held: int = 10 * MB, gap: int = 0) -> None:
        self.profiles.learn_load(key(worker), load, held)
        self.profiles.learn_turn(key(worker), 1, 0, turn, 1, turn)
        self.profiles.learn_invocation(key(worker), gap, 0, 1)

    def place(self, call: str, worker: str, owner: str = "gateway", **more: object) -> list[Instruction]:
        return self.do(ev.Placed(self.now, owner, Place(call, key(worker), **more)))  # type: ignore[arg-type]

    def bound(self, call: str, worker: str, **more: object) -> Bind:
        """Place, and expect to be bound at once."""
        (bind,) = binds(self.place(call, worker, **more))
        return bind

    def turn(self, bind: Bind) -> list[Instruction]:
        return self.do(ev.TurnStarted(self.now, bind.binding_id, bind.hit))

    def done(self, bind: Bind, calls: int = 1) -> list[Instruction]:
        return self.do(ev.TurnEnded(self.now, bind.binding_id, calls, 1 * MS))

    def wait(self, ns: int) -> list[Instruction]:
        """Let time pass, ticking when the core wants it and twice a second, as the service does; slices report."""
        said: list[Instruction] = []
        end = self.now + ns
        while self.now < end:
            due = self.core.next_timer()
            self.now = min(end, self.now + S // 2, due if due is not None else end)
            said += self.do(ev.Tick(self.now))
        return said


def key(worker: str) -> str:
    return f"{worker}.ns@1"


def binds(said: list[Instruction]) -> list[Bind]:
    return [i for i in said if isinstance(i, Bind)]


def refusals(said: list[Instruction]) -> list[tuple[str, str]]:
    return [(i.call_id, i.code) for i in said if isinstance(i, Refuse)]
