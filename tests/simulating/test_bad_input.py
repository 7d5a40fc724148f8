"""Whatever is wrong in a scenario, the error names the field, in one line, and the exit status is 2."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

import pytest

from proto.types.errors import SlicewiseError
from simulator.scenario import scenario
from slicewise.cli import BAD_INPUT, exit_status

TABLE = {"table": {"1": {"1": 0.01, "8": 0.06}, "7": {"1": 0.004, "8": 0.012}}}
GOOD: dict[str, Any] = {
    "version": 1,
    "seed": 1,
    "preloaded": False,
    "slices": [{"id": "g0", "gpcs": 7, "memory_gb": 8.0}, {"id": "g1", "gpcs": 1, "memory_gb": 1.0}],
    "models": {
        "resnet50": {"memory_gb": 1.9, "load_s": 2.6, "infer_s": {"fixed": 1.25, "per_item": 0.01}},
        "bert": {"memory_gb": 1.2, "load_s": 2.0, "infer_s": TABLE},
    },
    "noise_sigma": 0.0,
    "policy": {"name": "lalb", "o3_limit": 25},
    "requests": [{"id": "r1", "at_s": 0.0, "model": "resnet50"}, {"id": "r2", "at_s": 1, "model": "bert", "batch": 8}],
}
_GONE = "(left out)"


def changed(path: str, value: Any) -> dict[str, Any]:
    doc = copy.deepcopy(GOOD)
    *way, last = [int(step) if step.isdigit() else step for step in path.split("/")]
    place: Any = doc
    for step in way:
        place = place[str(step)] if isinstance(step, int) and isinstance(place, dict) else place[step]
    if value is _GONE:
        del place[str(last) if isinstance(place, dict) else last]
    elif isinstance(place, dict):
        place[str(last)] = value
    else:
        place[last] = value
    return doc


def test_it_is_good_as_it_is() -> None:
    made = scenario(GOOD)
    assert made.models["bert"].infer.ns(7, 8) == 12_000_000
    assert made.models["bert"].infer.ns(7, 4) == round((0.004 + (0.012 - 0.004) * (4 - 1) / (8 - 1)) * 1e9)
    assert made.models["resnet50"].infer.ns(7, 1) == round((1.25 + 0.01 * 1) * 1e9)


@pytest.mark.parametrize(
    "path", ["version", "seed", "preloaded", "noise_sigma", "policy", "requests/1/batch", "models/resnet50"]
)
def test_what_may_be_left_out(path: str) -> None:
    doc = changed(path, _GONE)
    if path == "models/resnet50":
        del doc["requests"][0]
    scenario(doc)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("version", 1.0), ("seed", 2.0), ("slices/0/gpcs", 7.0), ("requests/1/batch", 2.0), ("requests", []),
        ("policy", {"name": "lalb", "o3_limit": 10**12}), ("policy", {"name": "elsa", "alpha": 2}),
        ("models/bert/infer_s/table/3", {"5": 1}), ("requests/0/sla_s", 1e-12), ("models/bert/load_s", 0),
    ],
)  # fmt: skip
def test_what_is_allowed(path: str, value: Any) -> None:
    scenario(changed(path, value))


BAD: list[tuple[str, Any, str]] = [
    ("version", 2, "version"), ("version", "1", "version"), ("version", True, "version"), ("version", None, "version"),
    ("colour", 1, "colour"),
    ("seed", -1, "seed"), ("seed", 1.5, "seed"), ("seed", True, "seed"), ("seed", "1", "seed"),
    ("preloaded", 1, "preloaded"), ("preloaded", "no", "preloaded"), ("preloaded", None, "preloaded"),
    ("noise_sigma", -0.1, "noise_sigma"), ("noise_sigma", math.nan, "noise_sigma"),
    ("noise_sigma", math.inf, "noise_sigma"), ("noise_sigma", "0", "noise_sigma"),
    ("slices", _GONE, "slices"), ("slices", [], "slices"), ("slices", {}, "slices"), ("slices", None, "slices"),
    ("slices/0", 7, "slices[0]"), ("slices/0/id", _GONE, "slices[0].id"), ("slices/0/id", 5, "slices[0].id"),
    ("slices/1/id", "g0", "slices[1].id"), ("slices/0/id", None, "slices[0].id"),
    ("slices/0/gpcs", 0, "slices[0].gpcs"), ("slices/0/gpcs", 1.5, "slices[0].gpcs"),
    ("slices/0/gpcs", True, "slices[0].gpcs"), ("slices/0/gpcs", "7", "slices[0].gpcs"),
    ("slices/0/gpcs", math.inf, "slices[0].gpcs"), ("slices/0/gpcs", _GONE, "slices[0].gpcs"),
    ("slices/0/memory_gb", 0, "slices[0].memory_gb"), ("slices/0/memory_gb", -1.0, "slices[0].memory_gb"),
    ("slices/0/memory_gb", 1e305, "slices[0].memory_gb"), ("slices/0/name", "x", "slices[0].name"),
    ("models", _GONE, "models"), ("models", [], "models"), ("models/7", {}, "models.7"),
    ("models/bert", None, "models.bert"), ("models/bert/memory_gb", _GONE, "models.bert.memory_gb"),
    ("models/bert/memory_gb", 0, "models.bert.memory_gb"), ("models/bert/memory_gb", 8.1, "models.bert.memory_gb"),
    ("models/bert/load_s", -1, "models.bert.load_s"), ("models/bert/load_s", 10**400, "models.bert.load_s"),
    ("models/bert/load_s", "2.0", "models.bert.load_s"), ("models/bert/infer_s", 1, "models.bert.infer_s"),
    ("models/bert/infer_s", {}, "models.bert.infer_s"), ("models/bert/infer_s/fixed", 1, "models.bert.infer_s.fixed"),
    ("models/resnet50/infer_s/per_item", _GONE, "models.resnet50.infer_s.per_item"),
    ("models/resnet50/infer_s/fixed", -1, "models.resnet50.infer_s.fixed"),
    ("models/resnet50/infer_s/per_item", math.nan, "models.resnet50.infer_s.per_item"),
    ("models/bert/infer_s/table", {}, "models.bert.infer_s.table"),
    ("models/bert/infer_s/table", [1], "models.bert.infer_s.table"),
    ("models/bert/infer_s/table/7", _GONE, "models.bert.infer_s.table.7"),
    ("models/bert/infer_s/table/7", {}, "models.bert.infer_s.table.7"),
    ("models/bert/infer_s/table/7/8", _GONE, "models.bert.infer_s.table.7"),
    ("models/bert/infer_s/table/7/8", -1, "models.bert.infer_s.table.7.8"),
    ("models/bert/infer_s/table/7/0", 1, "models.bert.infer_s.table.7"),
    ("models/bert/infer_s/table/7/x", 1, "models.bert.infer_s.table.7"),
    ("models/bert/infer_s/table/half", {"1": 1}, "models.bert.infer_s.table"),
    ("policy", "lalb", "policy"), ("policy", {}, "policy.name"), ("policy", None, "policy"),
    ("policy/name", "best", "policy.name"), ("policy/o3_limit", -1, "policy.o3_limit"),
    ("policy/alpha", 1, "policy.alpha"), ("policy", {"name": "elsa", "beta": 0}, "policy.beta"),
    ("requests", _GONE, "requests"), ("requests", None, "requests"), ("requests", {"file": "x"}, "requests.file"),
    ("requests", {"trace": 5}, "requests.trace"), ("requests/0", "r1", "requests[0]"),
    ("requests/0/id", _GONE, "requests[0].id"), ("requests/0/id", 1, "requests[0].id"),
    ("requests/1/id", "r1", "requests[1].id"), ("requests/0/at_s", -1, "requests[0].at_s"),
    ("requests/0/at_s", math.nan, "requests[0].at_s"), ("requests/0/at_s", 1e300, "requests[0].at_s"),
    ("requests/0/model", "vgg", "requests[0].model"), ("requests/0/model", ["bert"], "requests[0].model"),
    ("requests/0/batch", 0, "requests[0].batch"), ("requests/0/batch", 1.5, "requests[0].batch"),
    ("requests/0/batch", 10**400, "requests[0].batch"), ("requests/1/batch", 9, "models.bert.infer_s.table.7"),
    ("requests/0/batch", 10**308, "models.resnet50.infer_s"), ("requests/0/sla_s", 0, "requests[0].sla_s"),
    ("requests/0/sla_s", None, "requests[0].sla_s"), ("requests/0/sla_s", math.inf, "requests[0].sla_s"),
    ("requests/0/gpu", 1, "requests[0].gpu"),
]  # fmt: skip


def refusal(make: Callable[[], object]) -> str:
    with pytest.raises(SlicewiseError) as refused:
        make()
    assert exit_status(refused.value) == BAD_INPUT
    assert "\n" not in refused.value.message
    assert len(refused.value.message) < 300
    return refused.value.message


@pytest.mark.parametrize(("path", "value", "field"), BAD, ids=lambda value: str(value)[:40])
def test_the_field_is_named(path: str, value: Any, field: str) -> None:
    message = refusal(lambda: scenario(changed(path, value)))
    assert field in message.split(": ")[0], message


@pytest.mark.parametrize("doc", [None, [], "slices", 5])
def test_a_document_that_is_no_mapping(doc: Any) -> None:
    assert "the document" in refusal(lambda: scenario(doc))


def test_names_that_are_no_strings() -> None:
    assert "1 in models" in refusal(lambda: scenario(GOOD | {"models": {1: GOOD["models"]["bert"]}}))


def test_a_table_may_have_keys_with_and_without_quotes_but_each_once() -> None:
    rows = {1: {1: 0.01, "8": 0.06}, "7": {1.0: 0.004, 8: 0.012}}
    assert scenario(changed("models/bert/infer_s", {"table": rows})).models["bert"].infer.ns(1, 8) == 60_000_000
    twice = rows | {"7.0": rows["7"]}
    assert "table.7" in refusal(lambda: scenario(changed("models/bert/infer_s", {"table": twice})))


def test_a_model_that_fits_nowhere_is_refused_unless_preloaded_and_only_its_own_slices_need_rows() -> None:
    doc = changed("models/bert/infer_s/table/1", _GONE)
    scenario(doc)  # it does not fit g1
    assert "table.1" in refusal(lambda: scenario(doc | {"preloaded": True}))
    scenario(changed("models/bert/memory_gb", 99) | {"preloaded": True})
    scenario(changed("models/bert/memory_gb", 8.000000001))


def test_noise_that_makes_times_endless_is_refused() -> None:
    from simulator.engine import simulate
    from simulator.scenario import policy_of

    made = scenario(changed("noise_sigma", 1e6))
    assert "noise_sigma" in refusal(lambda: simulate(made, policy_of({"name": "lb"})))
