"""Scenario files: slices, models, requests and a policy, read strictly into whole nanoseconds and bytes.

The format is a contract with people and tools outside (docs/simulator.md); every mistake in it is
named with its field. What happens in a scenario is the engine's matter.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from proto.types.errors import SlicewiseError
from proto.wire import fields
from proto.wire.documents import read_document
from proto.wire.fields import bad
from scheduler.core.policies.base import Policy
from simulator.arrivals import drawn_requests
from simulator.curves import Curve, curve
from simulator.live_policy import make_scenario_policy
from simulator.requests import Asked, asked
from simulator.traces import read_trace

EQUAL_BYTES = 1  # sizes compare to within 1e-9 GB
_DEFAULT_POLICY = "lalb"


@dataclass(frozen=True, slots=True)
class SliceOf:
    """A slice of the scenario; its place in the list is its index."""

    id: str
    gpcs: int
    memory_bytes: int


@dataclass(frozen=True, slots=True)
class ModelOf:
    """A model: memory of its whole worker process, load time, and its inference time by (gpcs, batch)."""

    name: str
    memory_bytes: int
    load_ns: int
    infer: Curve

    def fits(self, g: SliceOf) -> bool:
        """Whether it can be on this slice at all."""
        return self.memory_bytes <= g.memory_bytes + EQUAL_BYTES


@dataclass(frozen=True, slots=True)
class Scenario:
    """A whole, valid scenario; `policy` is what the file asks for, models keep the file's order."""

    slices: tuple[SliceOf, ...]
    models: Mapping[str, ModelOf]
    requests: tuple[Asked, ...]
    policy: Mapping[str, Any]
    seed: int = 0
    noise_sigma: float = 0.0
    preloaded: bool = False

    def homes(self, model: ModelOf) -> list[SliceOf]:
        """The slices that may run a model."""
        return [g for g in self.slices if self.preloaded or model.fits(g)]


def read_scenario(path: Path) -> Scenario:
    """The scenario in a JSON or YAML file; raises SlicewiseError `bad_request` or `bad_policy`."""
    return scenario(read_document(path), path.parent)


def scenario(document: Any, folder: Path = Path()) -> Scenario:
    """Check a document and make a scenario of it; a trace is looked for in `folder`."""
    top = fields.table(
        document, "", ("slices", "models", "requests"), ("version", "seed", "preloaded", "noise_sigma", "policy")
    )
    if fields.number(top.get("version", 1), "version") != 1:
        raise bad("version", "must be 1, the only one there is")
    policy = top.get("policy", {"name": _DEFAULT_POLICY})
    policy_of(policy)
    models = {
        name: _model(name, item) for name, item in fields.named(top["models"], "models", "models").items()
    }  # fmt: skip
    seed = fields.whole(top.get("seed", 0), "seed", least=0)
    made = Scenario(
        slices=_slices(top["slices"]),
        models=models,
        requests=_requests(top["requests"], folder, models, seed),
        policy=policy,
        seed=seed,
        noise_sigma=float(fields.number(top.get("noise_sigma", 0.0), "noise_sigma", least=0)),
        preloaded=fields.boolean(top.get("preloaded", False), "preloaded"),
    )
    _check_homes(made)
    return made


def policy_of(wish: Any, field: str = "policy") -> Policy:
    """The policy that a document asks for; its errors name the field below `field`."""
    if isinstance(wish, dict) and "name" not in wish:
        raise bad(f"{field}.name", "is missing; give it")
    try:
        return make_scenario_policy(wish)
    except SlicewiseError as error:
        raise SlicewiseError(error.code, f"{field}.{error.message}") from error


def _slices(value: Any) -> tuple[SliceOf, ...]:
    if not fields.items(value, "slices", "slices"):
        raise bad("slices", "must have at least one slice")
    made, seen = [], set()
    for index, item in enumerate(value):
        field = f"slices[{index}]"
        given = fields.table(item, field, ("id", "gpcs", "memory_gb"))
        g = SliceOf(
            fields.text(given["id"], f"{field}.id"),
            fields.whole(given["gpcs"], f"{field}.gpcs", least=1),
            _memory(given["memory_gb"], f"{field}.memory_gb"),
        )
        if g.id in seen:
            raise bad(f"{field}.id", f"{g.id!r} stands twice; give each slice an id of its own")
        seen.add(g.id)
        made.append(g)
    return tuple(made)


def _model(name: str, item: Any) -> ModelOf:
    field = f"models.{name}"
    given = fields.table(item, field, ("memory_gb", "load_s", "infer_s"))
    load_s = fields.number(given["load_s"], f"{field}.load_s", least=0)
    return ModelOf(
        name,
        _memory(given["memory_gb"], f"{field}.memory_gb"),
        fields.nanoseconds(load_s, f"{field}.load_s"),
        curve(given["infer_s"], f"{field}.infer_s"),
    )


def _memory(value: Any, field: str) -> int:
    return fields.size_bytes(fields.number(value, field, above=0), field)


def _requests(value: Any, folder: Path, models: Mapping[str, ModelOf], seed: int) -> tuple[Asked, ...]:
    if isinstance(value, dict):
        trace = fields.table(value, "requests", ("trace",))["trace"]
        if isinstance(trace, dict):
            rows = drawn_requests(trace, models, seed)
        else:
            rows = read_trace(folder / fields.text(trace, "requests.trace"))
    elif isinstance(value, list):
        rows = [(f"requests[{index}]", item) for index, item in enumerate(value)]
    else:
        raise bad("requests", "must be a list of requests, {trace: FILE} or {trace: {rate_rps, ...}}")
    made: list[Asked] = []
    seen: set[str] = set()
    for field, item in rows:
        r = asked(item, field)
        if r.id in seen:
            raise bad(f"{field}.id", f"{r.id!r} stands twice; give each request an id of its own")
        if r.model not in models:
            raise bad(f"{field}.model", f"{r.model!r} is not in models; add it there or correct the name")
        seen.add(r.id)
        made.append(r)
    return tuple(made)


def _check_homes(made: Scenario) -> None:
    """Every model has a slice, and a time for every slice and batch that may come together."""
    for model in made.models.values():
        homes = made.homes(model)
        if not homes:
            raise bad(f"models.{model.name}.memory_gb", "is more than any slice has; shrink it or enlarge a slice")
        sizes = sorted({g.gpcs for g in homes})
        for size in sizes:
            model.infer.check_size(size)
        for batch in sorted({r.batch for r in made.requests if r.model == model.name}):
            for size in sizes:
                model.infer.ns(size, batch)  # says what is missing
