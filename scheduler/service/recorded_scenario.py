"""`python -m scheduler.service.recorded_scenario FILE`: a recording's arrivals and measured times as a scenario.

`slicewise simulate` then tells what the simulator makes of the traffic that was served, so that the two can be
compared, or another policy be tried on it. Times are means: of each worker's loads, and of its turns by slice size.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

from proto.types.errors import SlicewiseError
from proto.types.slices import SliceSpec
from scheduler.core import events as ev
from scheduler.core.history import base
from scheduler.service.replaying import read_events

_NS = 1e9
_GB = 1e9


@dataclass(slots=True)
class _Call:
    """One call from its first Place to the end of its last turn."""

    call_id: str
    worker: str
    batch: int
    sla_ns: int
    arrived_ns: int
    binding: str = ""
    slice: str = ""
    hit: bool | None = None
    finished_ns: int = -1


@dataclass(slots=True)
class Recorded:
    """What a recording tells of the calls that had a turn, in the order they came."""

    slices: dict[str, SliceSpec] = field(default_factory=dict)
    calls: list[_Call] = field(default_factory=list)
    loads: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    held: dict[str, int] = field(default_factory=dict)
    turns: dict[tuple[str, int], list[int]] = field(default_factory=lambda: defaultdict(list))
    handovers: list[int] = field(default_factory=list)
    policy: dict[str, Any] = field(default_factory=dict)

    @property
    def mean_latency_s(self) -> float:
        """From a call's arrival to the end of its turn, as the scheduler saw both; loads and waiting included."""
        return fmean(call.finished_ns - call.arrived_ns for call in self.calls) / _NS

    @property
    def miss_ratio(self) -> float:
        """Of the calls, those whose model was not on the slice when their turn began."""
        return fmean(call.hit is False for call in self.calls)

    @property
    def handover_s(self) -> float:
        """The usual time between two turns, 0 if there was none."""
        return fmean(self.handovers) / _NS if self.handovers else 0.0


def read_recording(lines: Iterable[str]) -> Recorded:
    """Calls, slices and measured times; raises SlicewiseError `bad_request` if no call had a turn."""
    found, calls = Recorded(), dict[str, _Call]()
    bound: dict[str, _Call] = {}
    began: dict[str, int] = {}
    for event, said in read_events(lines):
        match event:
            case ev.PolicySet():
                found.policy = dict(event.policy.parameters())
            case ev.NodeJoined():
                found.slices |= {spec.id: spec for spec in event.specs}
            case ev.Placed():
                place, arrived_ns = event.place, event.now_ns - event.place.waited_ns
                fresh = _Call(place.call_id, place.worker, place.batch, place.sla_ns, arrived_ns)
                calls.setdefault(base(place.call_id) + place.worker, fresh)
            case ev.Loaded() if not event.code:
                found.loads[event.worker].append(event.load_ns)
                found.held[event.worker] = max(event.held_bytes, found.held.get(event.worker, 0))
            case ev.TurnStarted() if event.binding_id in bound:
                began[event.binding_id] = event.now_ns
                call = bound[event.binding_id]
                call.hit = event.hit if call.hit is None else call.hit
            case ev.TurnEnded() if event.binding_id in began:
                call = bound[event.binding_id]
                call.finished_ns = event.now_ns
                took_ns = max(event.infer_ns, event.now_ns - began.pop(event.binding_id))
                found.turns[call.worker, found.slices[call.slice].gpcs].append(took_ns)
                if event.handover_ns > 0:
                    found.handovers.append(event.handover_ns)
        for name, given in said:
            if name == "Bind" and not given["again"]:
                asked = given["request"]
                of = calls.get(base(asked["call_id"]) + asked["worker"])
                if of is not None:
                    of.binding, of.slice = given["binding_id"], given["slice"]
                    bound[of.binding] = of
    found.calls = [call for call in calls.values() if call.finished_ns >= 0]
    if not found.calls:
        raise SlicewiseError("bad_request", "No call in this recording had a turn.")
    return found


def scenario_of(found: Recorded, policy: dict[str, Any]) -> dict[str, Any]:
    """The scenario document; models are worker keys, and one that was never loaded loads in no time."""
    first_ns = min(call.arrived_ns for call in found.calls)
    sizes = sorted({spec.gpcs for spec in found.slices.values()})
    models: dict[str, Any] = {}
    for worker in sorted({call.worker for call in found.calls}):
        turns = {size: taken for size in sizes if (taken := found.turns.get((worker, size)))}
        table = {}
        for size in sizes:
            nearest = min(turns, key=lambda known: (abs(known - size), known))
            batches = sorted({max(1, call.batch) for call in found.calls if call.worker == worker})
            table[str(size)] = {str(batch): fmean(turns[nearest]) / _NS for batch in batches}
        loads = found.loads.get(worker)
        models[worker] = {
            "memory_gb": max(1, found.held.get(worker, 1)) / _GB,
            "load_s": fmean(loads) / _NS if loads else 0.0,
            "infer_s": {"table": table},
        }
    requests = [
        {"id": f"{number}:{call.call_id}", "at_s": (call.arrived_ns - first_ns) / _NS, "model": call.worker,
         "batch": max(1, call.batch)} | ({"sla_s": call.sla_ns / _NS} if call.sla_ns > 0 else {})
        for number, call in enumerate(found.calls)
    ]  # fmt: skip
    slices = [
        {"id": spec.id, "gpcs": spec.gpcs, "memory_gb": spec.memory_bytes / _GB}
        for spec in sorted(found.slices.values(), key=lambda spec: (spec.node, spec.index))
    ]
    return {"version": 1, "slices": slices, "models": models, "requests": requests, "policy": policy}


def main(arguments: list[str]) -> int:
    """Prints the scenario under the platform's rules; exit status 2 for a file that cannot be read."""
    if len(arguments) != 1:
        print("usage: python -m scheduler.service.recorded_scenario FILE", file=sys.stderr)
        return 2
    try:
        with Path(arguments[0]).open(encoding="utf-8") as file:
            found = read_recording(file)
    except (OSError, ValueError, SlicewiseError) as error:
        print(f"{arguments[0]}: {error}", file=sys.stderr)
        return 2
    policy = (found.policy or {"name": "lalb"}) | {"ahead_s": min(10.0, found.handover_s), "overlap_load": True}
    print(json.dumps(scenario_of(found, policy)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
