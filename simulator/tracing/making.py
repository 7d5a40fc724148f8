"""A scenario's document: models and slices from one file, requests from a trace or a generator."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from proto.wire import fields
from proto.wire.fields import bad
from simulator.arrivals import drawn_requests
from simulator.tracing import mapping, shaping, sources
from simulator.tracing.requests import requests
from simulator.tracing.sources import Wanted

_KEPT = ("preloaded", "noise_sigma", "policy")
_STREAM = 3  # of the seed; noise and drawn requests have their own
FIELD = "requests.trace"  # as errors of a scenario's own generator begin


@dataclass(frozen=True, slots=True)
class Frame:
    """All of the scenario but its requests; `batches` and `sla_s` are for calls that have none of their own."""

    slices: list[dict[str, Any]]
    profiles: dict[str, Any]
    rest: dict[str, Any]
    seed: int
    batches: Any
    sla_s: float | None

    def document(self, models: dict[str, tuple[str, Any]], made: list[dict[str, Any]]) -> dict[str, Any]:
        """With these models, given by function."""
        return {
            "version": 1,
            "seed": self.seed,
            **self.rest,
            "slices": self.slices,
            "models": dict(models.values()),
            "requests": made,
        }


def frame(document: Any, slices: list[dict[str, Any]] | None, seed: int, batches: Any, sla_s: float | None) -> Frame:
    """Of a file with `models` and perhaps `slices`; raises SlicewiseError `bad_request`."""
    if not isinstance(document, dict) or "models" not in document:
        raise bad("models", "is missing in the file of --models; give it the `models` of a scenario")
    slices = document.get("slices") if slices is None else slices
    if slices is None:
        raise bad("--slices", "is missing, and the file of --models has no slices; give it, as 4x1g:5GB")
    profiles = fields.named(document["models"], "models", "models")
    rest = {key: document[key] for key in _KEPT if key in document}
    return Frame(fields.items(slices, "slices", "slices"), profiles, rest, seed, batches, sla_s)


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast a file's calls come: so many a minute, and then all of it in 1/scale of the time."""

    per_minute: int | None = None
    scale: float = 1.0


def of_file(
    path: Path, kind: str | None, wanted: Wanted, pace: Pace, rule: str | None, frame: Frame
) -> tuple[dict[str, Any], int]:
    """(the scenario, lines of the file that a crash had cut)."""
    import numpy  # takes longer to import than the command's help to show

    draw = numpy.random.default_rng([frame.seed, _STREAM]).random
    kind = kind or sources.sniff(path)
    rule = rule or (mapping.NAME if kind == sources.RECORDED else mapping.POPULARITY)
    taken = sources.read(path, kind, wanted, draw)
    arrivals, window = taken.arrivals, wanted.window
    functions = mapping.ordered(taken.functions, (a.function for a in arrivals), rule)
    if not functions:
        raise bad("--from", "the window has no calls; give another --from and --to")
    if pace.per_minute is not None:
        length_ns = None if window.to_ns is None else window.to_ns - window.from_ns
        arrivals = shaping.per_minute(arrivals, pace.per_minute, length_ns, draw)
    if pace.scale != 1:
        arrivals = shaping.faster(arrivals, pace.scale)
    models = mapping.models_of(functions, frame.profiles, rule)
    names = {function: name for function, (name, _) in models.items()}
    return frame.document(models, requests(arrivals, names, frame.batches, frame.sla_s, draw)), taken.cut


def drawn(generator: dict[str, Any], functions: int | None, rule: str | None, frame: Frame) -> dict[str, Any]:
    """`generator` as in a scenario's `requests.trace`, without what the frame says; there are `functions` of them.

    Raises SlicewiseError `bad_request`, which names fields as in a scenario.
    """
    if rule == mapping.NAME:
        raise bad("--map", "name is for files, whose functions have names; leave it out")
    count = len(frame.profiles) if functions is None else functions
    models = mapping.models_of([str(number) for number in range(count)], frame.profiles, rule or mapping.POPULARITY)
    whole = generator | {"batches": frame.batches} | ({} if frame.sla_s is None else {"sla_s": frame.sla_s})
    rows = drawn_requests(whole, [name for name, _ in models.values()], frame.seed)
    return frame.document(models, [item for _, item in rows])
