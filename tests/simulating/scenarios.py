"""Random scenarios as documents, small numbers so that ties and evictions are frequent; and how they are run."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

from simulator.engine import Engine
from simulator.report import document
from simulator.scenario import policy_of, scenario


def run(doc: dict[str, Any], policy: dict[str, Any] | None = None) -> dict[str, Any]:
    """What the command prints, through JSON as the command reads and writes it."""
    given = scenario(json.loads(json.dumps(doc)))
    result = document(Engine(given, policy_of(policy or given.policy)).run())
    return json.loads(json.dumps(result))  # type: ignore[no-any-return]


def rows(result: dict[str, Any]) -> list[tuple[str, float, float, bool]]:
    """(slice, start, finish, hit) of each request."""
    return [(r["slice"], r["start_s"], r["finish_s"], r["hit"]) for r in result["requests"]]


def small(
    slices: list[tuple[int, float]], models: dict[str, tuple[float, float, float]], *asked: tuple[Any, ...], **more: Any
) -> dict[str, Any]:
    """(gpcs, memory), name -> (memory, load, infer), and (at, model[, sla[, batch]]) as a scenario."""
    return {
        "slices": [{"id": f"g{i}", "gpcs": gpcs, "memory_gb": gb} for i, (gpcs, gb) in enumerate(slices)],
        "models": {
            name: {"memory_gb": gb, "load_s": load, "infer_s": {"fixed": infer, "per_item": 0.0}}
            for name, (gb, load, infer) in models.items()
        },
        "requests": [
            {"id": f"r{i}", "at_s": a[0], "model": a[1]}
            | ({"sla_s": a[2]} if len(a) > 2 and a[2] else {})
            | ({"batch": a[3]} if len(a) > 3 else {})
            for i, a in enumerate(asked)
        ],
        **more,
    }


_POLICIES = st.one_of(
    st.sampled_from([{"name": "lb"}, {"name": "fifs"}, {"name": "lalb"}, {"name": "elsa"}]),
    st.builds(lambda n: {"name": "lalb", "o3_limit": n}, st.sampled_from([0, 1, 2, 4])),
    st.builds(
        lambda a, b: {"name": "elsa", "alpha": a, "beta": b},
        st.sampled_from([0.5, 1, 1.2, 3]),
        st.sampled_from([0.3, 1, 2]),
    ),
)
_SECONDS = st.sampled_from([0, 0.1, 0.2, 0.3, 0.5, 1, 1.5, 2.7])


@st.composite
def documents(draw: st.DrawFn) -> dict[str, Any]:
    """A valid scenario."""
    slices = [
        {"id": f"g{i}", "gpcs": draw(st.sampled_from([1, 2, 7])), "memory_gb": draw(st.sampled_from([0.3, 0.8, 1, 2]))}
        for i in range(draw(st.integers(1, 5)))
    ]
    preloaded = draw(st.sampled_from([False, False, False, True]))
    largest = max(g["memory_gb"] for g in slices)
    batches = sorted(draw(st.sets(st.integers(2, 9), max_size=3)) | {1, 10})
    models = {}
    for name in "abcdef"[: draw(st.integers(1, 6))]:
        memory = draw(st.sampled_from([m for m in (0.1, 0.2, 0.3, 0.4, 0.7, 1, 2) if preloaded or m <= largest]))
        if draw(st.booleans()):
            rule: dict[str, Any] = {"fixed": draw(_SECONDS), "per_item": draw(st.sampled_from([0, 0.1, 0.037]))}
        else:
            rule = {"table": {k: {str(b): draw(_SECONDS) for b in batches} for k in ("1", "2", "7")}}
        models[name] = {"memory_gb": memory, "load_s": draw(_SECONDS), "infer_s": rule}
    requests = []
    for i in range(draw(st.integers(0, 25))):
        at_s = draw(st.sampled_from([0, 0.1, 0.5, 1, 2, 4.2]) | st.integers(0, 90).map(lambda tenths: tenths / 10))
        r: dict[str, Any] = {"id": f"r{i}", "at_s": at_s}
        r["model"] = draw(st.sampled_from(sorted(models)))
        if draw(st.booleans()):
            r["batch"] = draw(st.integers(1, 10))
        if draw(st.booleans()):
            r["sla_s"] = draw(st.sampled_from([0.1, 0.3, 0.7, 1, 2, 5, 20]))
        requests.append(r)
    noise = draw(st.sampled_from([0.0, 0.0, 0.4]))
    return {
        "version": 1, "seed": draw(st.integers(0, 3)), "preloaded": preloaded, "slices": slices, "models": models,
        "noise_sigma": noise, "policy": draw(_POLICIES), "requests": requests,
    }  # fmt: skip
