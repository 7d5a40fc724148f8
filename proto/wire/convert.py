"""Between the dataclasses of proto.types and the messages on the wire."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from proto.types.errors import SlicewiseError
from proto.types.models import Model
from proto.types.placing import Binding, Place
from proto.types.slices import CachedWorker, SliceSpec, SliceState, SliceStatus, WorkerStatus
from proto.wire.credentials import SigningKey, Trust
from proto.wire.generated import slicewise_pb2 as pb


def failure(error: SlicewiseError) -> pb.Failure:
    """An error for the wire."""
    return pb.Failure(code=error.code, message=error.message, retry_after_s=error.retry_after_s or 0.0)


def error(message: pb.Failure) -> SlicewiseError:
    """The error that `failure` sent."""
    return SlicewiseError(message.code, message.message, message.retry_after_s or None)


def place_to_wire(place: Place) -> pb.Place:
    """Place for the wire."""
    return pb.Place(**dataclasses.asdict(place))


def place_from_wire(message: pb.Place) -> Place:
    """Place from the wire."""
    return Place(
        call_id=message.call_id,
        worker=message.worker,
        batch=message.batch,
        sla_ns=message.sla_ns,
        waited_ns=message.waited_ns,
        skips=message.skips,
        deadline_ns=message.deadline_ns,
        late=message.late,
        avoid=tuple(message.avoid),
    )


def spec_to_wire(spec: SliceSpec) -> pb.SliceSpec:
    """Slice spec for the wire."""
    return pb.SliceSpec(**dataclasses.asdict(spec))


def spec_from_wire(message: pb.SliceSpec) -> SliceSpec:
    """Slice spec from the wire."""
    return SliceSpec(message.id, message.node, message.index, message.gpcs, message.memory_bytes, message.kind)


def report_to_wire(state: SliceState) -> pb.SliceReport:
    """A slice's whole state for the wire."""
    return pb.SliceReport(
        spec=spec_to_wire(state.spec),
        sequence=state.sequence,
        pool=state.pool,
        status=state.status,
        free_bytes=state.free_bytes,
        workers=[
            pb.CachedWorker(
                key=worker.key,
                status=worker.status,
                held_bytes=worker.held_bytes,
                last_used_ns=worker.last_used_ns,
                models=worker.models,
                exclusive_to=worker.exclusive_to,
            )
            for worker in state.workers
        ],
        bindings=state.bindings,
        turn=state.turn,
        turn_started_ns=state.turn_started_ns,
        waiting=state.waiting,
    )


def report_from_wire(message: pb.SliceReport) -> SliceState:
    """A slice's whole state from the wire."""
    return SliceState(
        spec=spec_from_wire(message.spec),
        sequence=message.sequence,
        pool=message.pool,
        status=SliceStatus(message.status),
        free_bytes=message.free_bytes,
        workers=tuple(
            CachedWorker(
                worker.key,
                WorkerStatus(worker.status),
                worker.held_bytes,
                worker.last_used_ns,
                tuple(worker.models),
                worker.exclusive_to,
            )
            for worker in message.workers
        ),
        bindings=tuple(message.bindings),
        turn=message.turn,
        turn_started_ns=message.turn_started_ns,
        waiting=tuple(message.waiting),
    )


def model_to_wire(model: Model) -> pb.Model:
    """A model's record for the wire."""
    fields = dataclasses.asdict(model)
    distributions = fields.pop("distributions")
    return pb.Model(**fields, distributions_json=json.dumps(distributions))


def model_from_wire(message: pb.Model) -> Model:
    """A model's record from the wire."""
    return Model(
        digest=message.digest,
        worker=message.worker,
        kind=message.kind,
        class_name=message.class_name,
        tensor_bytes=message.tensor_bytes,
        package_bytes=message.package_bytes,
        python=message.python,
        torch=message.torch,
        distributions=tuple((name, version) for name, version in json.loads(message.distributions_json or "[]")),
        environment=message.environment,
    )


def sign_binding(key: SigningKey, binding: Binding) -> str:
    """A binding as the token that brokers carry to the data door."""
    return key.sign({**dataclasses.asdict(binding), "exp": binding.expires_unix_ns})


def read_binding(claims: dict[str, Any]) -> Binding:
    """The binding in verified claims."""
    return Binding(**{field.name: claims[field.name] for field in dataclasses.fields(Binding)})


def verify_binding(trust: Trust, token: str, now_unix_ns: int) -> Binding:
    """The binding in a token; raises SlicewiseError `unauthorised` when it is forged or expired."""
    return read_binding(trust.verify(token, "bindings", now_unix_ns))
