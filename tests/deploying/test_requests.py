"""What a deploy request means, field by field."""

from __future__ import annotations

import contextlib
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.core import bodies, deployment, gpu, limits, quantities, records, scaling
from gateway.core.gpu import ImageFacts
from gateway.core.names import Namespaces
from proto.types.errors import SlicewiseError
from proto.types.identity import FunctionKey

NAMESPACES = Namespaces("openfaas-fn", ("openfaas-fn", "staging"))
IMAGE = ImageFacts("a" * 64)


def parse(**fields: Any) -> deployment.Deployment:
    return deployment.parse({"service": "f", "image": "i", **fields}, NAMESPACES)


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"service": None}, "service"),
        ({"service": ""}, "service"),
        ({"service": "Upper"}, "service"),
        ({"service": "-a"}, "service"),
        ({"service": "a-"}, "service"),
        ({"service": "a.b"}, "service"),
        ({"service": "a_b"}, "service"),
        ({"service": "a/b"}, "service"),
        ({"service": "a\n"}, "service"),
        ({"service": "x" * 64}, "service"),
        ({"service": 7}, "service"),
        ({"image": None}, "image"),
        ({"image": "  "}, "image"),
        ({"image": "a\0b"}, "image"),
        ({"namespace": "kube-system"}, "namespace"),
        ({"namespace": "elsewhere"}, "namespace"),
        ({"namespace": 1}, "namespace"),
        ({"envVars": []}, "envVars"),
        ({"envVars": {"a": 1}}, "envVars.a"),
        ({"envVars": {"a=b": "1"}}, "envVars.a=b"),
        ({"envVars": {"a": "\0"}}, "envVars.a"),
        ({"labels": {"a": True}}, "labels.a"),
        ({"annotations": "x"}, "annotations"),
        ({"constraints": "node=a"}, "constraints"),
        ({"secrets": [1]}, "secrets"),
        ({"secrets": ["Not Valid"]}, "secrets"),
        ({"limits": {"memory": "lots"}}, "limits.memory"),
        ({"limits": {"memory": "-1"}}, "limits.memory"),
        ({"requests": {"cpu": "1 core"}}, "requests.cpu"),
        ({"limits": {"nvidia.com/gpu": "0.5"}}, "limits.nvidia.com/gpu"),
        ({"readOnlyRootFilesystem": "yes"}, "readOnlyRootFilesystem"),
    ],
)
def test_a_mistake_is_a_400_that_begins_with_its_field(fields: dict[str, Any], field: str) -> None:
    with pytest.raises(SlicewiseError) as caught:
        parse(**fields)
    assert caught.value.status == 400
    assert caught.value.message.startswith(f"{field}:")


def test_nulls_and_fields_of_other_ages_are_fine() -> None:
    accepted = parse(
        labels=None, annotations=None, envVars=None, registryAuth="x", network="func_functions", limits=None
    )
    assert accepted == parse()


@pytest.mark.parametrize("body", [b"", b" ", b"{", b"[]", b"null", b'"x"', b'{"a": NaN}', b"\xff", b"[" * 100_000])
def test_a_body_that_is_no_json_object_is_a_400(body: bytes) -> None:
    with pytest.raises(SlicewiseError) as caught:
        bodies.read_object(body)
    assert caught.value.status == 400


def test_what_was_accepted_comes_back_from_storage_as_it_was() -> None:
    accepted = parse(
        envVars={"A": "1"}, labels={"x": "y"}, limits={"memory": "5Mi", "cpu": "100m"}, secrets=["b", "a", "b"],
        readOnlyRootFilesystem=True, constraints=["node=n"], namespace="staging",
    )  # fmt: skip
    assert accepted.secrets == ("b", "a")
    record = records.FunctionRecord(accepted, "r" * 12, 20001, 3, 5, True, 10**9, "2026-01-01T00:00:00Z", "d")
    assert records.read(FunctionKey("staging", "f"), record.as_json()) == record


@pytest.mark.parametrize(
    ("fields", "image", "wanted"),
    [
        ({}, IMAGE, False),
        ({"labels": {"com.slicewise.gpu": "true"}}, IMAGE, True),
        ({"annotations": {"com.slicewise.gpu": "true"}}, IMAGE, True),
        ({"limits": {"nvidia.com/gpu": "1"}}, IMAGE, True),
        ({"limits": {"nvidia.com/gpu": "0"}}, IMAGE, False),
        ({"envVars": {"GPU_ENABLE": "1"}}, IMAGE, True),
        ({}, ImageFacts("d", labels={"com.slicewise.gpu": "true"}), True),
        ({}, ImageFacts("d", environment={"GPU_ENABLE": "1"}), True),
        ({}, ImageFacts("d", environment={"GPU_ENABLE": "0"}), False),
        ({"labels": {"com.slicewise.gpu": "false"}}, ImageFacts("d", labels={"com.slicewise.gpu": "true"}), False),
    ],
)
def test_the_gpu_flag_is_found_wherever_a_user_may_set_it(fields: Any, image: ImageFacts, wanted: bool) -> None:
    assert gpu.wants_gpu(parse(**fields), image) is wanted


def test_a_flag_that_is_neither_true_nor_false_is_refused() -> None:
    with pytest.raises(SlicewiseError, match=r"labels\.com\.slicewise\.gpu"):
        gpu.wants_gpu(parse(labels={"com.slicewise.gpu": "maybe"}), IMAGE)


@pytest.mark.parametrize(
    ("fields", "image", "interposed"),
    [
        ({}, IMAGE, True),
        ({"labels": {"com.slicewise.interpose": "false"}}, IMAGE, False),
        ({"annotations": {"com.slicewise.interpose": "no"}}, IMAGE, False),
        ({}, ImageFacts("d", labels={"com.slicewise.interpose": "false"}), False),
        (
            {"labels": {"com.slicewise.interpose": "true"}},
            ImageFacts("d", labels={"com.slicewise.interpose": "false"}),
            True,
        ),
    ],
)
def test_a_gpu_function_may_opt_out_of_slices(fields: Any, image: ImageFacts, interposed: bool) -> None:
    gpu.check_names(parse(**fields))
    assert gpu.interposes(parse(**fields), image) is interposed
    with pytest.raises(SlicewiseError, match=r"labels\.com\.slicewise\.interpose"):
        gpu.interposes(parse(labels={"com.slicewise.interpose": "perhaps"}), image)


@pytest.mark.parametrize(
    ("variables", "image", "wrong"),
    [
        ({"exec_timeout": "10sec"}, {}, r"envVars\.exec_timeout: '10sec' is no duration"),
        ({"read_timeout": "1 m"}, {}, r"envVars\.read_timeout"),
        ({"write_timeout": "0s"}, {}, r"envVars\.write_timeout: must be longer"),
        ({"max_inflight": "four"}, {}, r"envVars\.max_inflight: 'four' is no whole number"),
        ({}, {"exec_timeout": "ten"}, "the image's variable exec_timeout"),
    ],
)
def test_limits_that_cannot_be_read_are_refused_by_name(
    variables: dict[str, str], image: dict[str, str], wrong: str
) -> None:
    with pytest.raises(SlicewiseError, match=wrong) as caught:
        limits.check(parse(envVars=variables), ImageFacts("d", environment=image))
    assert caught.value.code == "bad_function"


def test_limits_as_people_write_them_are_taken() -> None:
    written = {"exec_timeout": "1m30s", "read_timeout": "0", "write_timeout": ".5s", "max_inflight": "0"}
    limits.check(parse(envVars=written), ImageFacts("d", environment={"exec_timeout": ""}))
    # What the deployment says counts, not what the image said before it.
    limits.check(parse(envVars={"exec_timeout": "2s"}), ImageFacts("d", environment={"exec_timeout": "ten"}))


def test_the_sla_is_a_go_duration() -> None:
    assert gpu.sla_ns(parse()) == 0
    assert gpu.sla_ns(parse(annotations={"com.slicewise.sla": "500ms"})) == 500_000_000
    for text in ("soon", "0s", "-1s"):
        with pytest.raises(SlicewiseError, match=r"com\.slicewise\.sla"):
            gpu.sla_ns(parse(annotations={"com.slicewise.sla": text}))


def test_replicas_follow_the_labels_at_first_and_stay_on_update() -> None:
    assert scaling.after_deploy({}, None) == 1
    assert scaling.after_deploy({"com.openfaas.scale.min": "3"}, None) == 3
    assert scaling.after_deploy({}, 0) == 0
    assert scaling.after_deploy({}, 7) == 7
    assert scaling.after_deploy({"com.openfaas.scale.min": "3"}, 1) == 3
    assert scaling.after_wake({"com.openfaas.scale.min": "2"}) == 2
    for labels in ({"com.openfaas.scale.min": "0"}, {"com.openfaas.scale.min": "x"}, {"com.openfaas.scale.max": "-1"}):
        with pytest.raises(SlicewiseError, match=r"labels\.com\.openfaas\.scale"):
            scaling.bounds(labels)
    with pytest.raises(SlicewiseError):
        scaling.bounds({"com.openfaas.scale.min": "3", "com.openfaas.scale.max": "2"})


def test_the_revision_changes_with_what_runs_and_with_nothing_else() -> None:
    base = records.revision_of(parse(), "d", False)
    assert len(base) == 12
    same = [parse(labels={"a": "b"}), parse(annotations={"a": "b"}), parse(constraints=["node=x"])]
    assert {records.revision_of(item, "d", False) for item in same} == {base}
    other = [parse(envVars={"a": "b"}), parse(secrets=["s"]), parse(envProcess="python x.py")]
    others = {records.revision_of(item, "d", False) for item in other}
    others |= {records.revision_of(parse(), "e", False), records.revision_of(parse(), "d", True)}
    assert len(others) == 5
    assert base not in others


def test_environment_order_does_not_make_another_revision() -> None:
    one, two = parse(envVars={"a": "1", "b": "2"}), parse(envVars={"b": "2", "a": "1"})
    assert records.revision_of(one, "d", False) == records.revision_of(two, "d", False)


@pytest.mark.parametrize(
    ("text", "value"), [("1", 1), ("100m", 0.1), ("5Mi", 5 * 2**20), ("1e3", 1000), (".5", 0.5), ("2k", 2000)]
)
def test_quantities_are_those_of_kubernetes(text: str, value: float) -> None:
    assert float(quantities.parse(text)) == value


@given(st.text(max_size=12))
def test_no_text_breaks_the_reader_of_quantities(text: str) -> None:
    with contextlib.suppress(ValueError):
        assert quantities.parse(text) >= 0


@pytest.mark.parametrize(
    "fields",
    [
        {"labels": {"com.slicewise.gpus": "true"}},
        {"annotations": {"com.slicewise.GPU": "true"}},
        {"limits": {"nvidia.com/gpus": "1"}},
    ],
)
def test_a_misspelt_flag_is_refused_by_name(fields: dict[str, dict[str, str]]) -> None:
    (name,) = next(iter(fields.values()))
    with pytest.raises(SlicewiseError, match=re.escape(name)) as caught:
        gpu.check_names(parse(**fields))
    assert caught.value.code == "bad_function"
