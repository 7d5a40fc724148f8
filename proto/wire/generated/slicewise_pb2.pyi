from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Empty(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Failure(_message.Message):
    __slots__ = ("code", "message", "retry_after_s")
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    RETRY_AFTER_S_FIELD_NUMBER: _ClassVar[int]
    code: str
    message: str
    retry_after_s: float
    def __init__(self, code: _Optional[str] = ..., message: _Optional[str] = ..., retry_after_s: _Optional[float] = ...) -> None: ...

class Json(_message.Message):
    __slots__ = ("text",)
    TEXT_FIELD_NUMBER: _ClassVar[int]
    text: str
    def __init__(self, text: _Optional[str] = ...) -> None: ...

class CallRef(_message.Message):
    __slots__ = ("call_id",)
    CALL_ID_FIELD_NUMBER: _ClassVar[int]
    call_id: str
    def __init__(self, call_id: _Optional[str] = ...) -> None: ...

class CallUp(_message.Message):
    __slots__ = ("place", "cancel", "release", "observed", "hello", "more")
    PLACE_FIELD_NUMBER: _ClassVar[int]
    CANCEL_FIELD_NUMBER: _ClassVar[int]
    RELEASE_FIELD_NUMBER: _ClassVar[int]
    OBSERVED_FIELD_NUMBER: _ClassVar[int]
    HELLO_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    place: Place
    cancel: Cancel
    release: Release
    observed: Observed
    hello: CallsHello
    more: _containers.RepeatedCompositeFieldContainer[CallUp]
    def __init__(self, place: _Optional[_Union[Place, _Mapping]] = ..., cancel: _Optional[_Union[Cancel, _Mapping]] = ..., release: _Optional[_Union[Release, _Mapping]] = ..., observed: _Optional[_Union[Observed, _Mapping]] = ..., hello: _Optional[_Union[CallsHello, _Mapping]] = ..., more: _Optional[_Iterable[_Union[CallUp, _Mapping]]] = ...) -> None: ...

class CallsHello(_message.Message):
    __slots__ = ("who", "bindings")
    WHO_FIELD_NUMBER: _ClassVar[int]
    BINDINGS_FIELD_NUMBER: _ClassVar[int]
    who: str
    bindings: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, who: _Optional[str] = ..., bindings: _Optional[_Iterable[str]] = ...) -> None: ...

class Place(_message.Message):
    __slots__ = ("call_id", "worker", "batch", "sla_ns", "waited_ns", "skips", "deadline_ns", "late", "avoid")
    CALL_ID_FIELD_NUMBER: _ClassVar[int]
    WORKER_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    SLA_NS_FIELD_NUMBER: _ClassVar[int]
    WAITED_NS_FIELD_NUMBER: _ClassVar[int]
    SKIPS_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_NS_FIELD_NUMBER: _ClassVar[int]
    LATE_FIELD_NUMBER: _ClassVar[int]
    AVOID_FIELD_NUMBER: _ClassVar[int]
    call_id: str
    worker: str
    batch: int
    sla_ns: int
    waited_ns: int
    skips: int
    deadline_ns: int
    late: bool
    avoid: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, call_id: _Optional[str] = ..., worker: _Optional[str] = ..., batch: _Optional[int] = ..., sla_ns: _Optional[int] = ..., waited_ns: _Optional[int] = ..., skips: _Optional[int] = ..., deadline_ns: _Optional[int] = ..., late: _Optional[bool] = ..., avoid: _Optional[_Iterable[str]] = ...) -> None: ...

class Cancel(_message.Message):
    __slots__ = ("call_id", "reason")
    CALL_ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    call_id: str
    reason: str
    def __init__(self, call_id: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class Release(_message.Message):
    __slots__ = ("call_id", "binding_id")
    CALL_ID_FIELD_NUMBER: _ClassVar[int]
    BINDING_ID_FIELD_NUMBER: _ClassVar[int]
    call_id: str
    binding_id: str
    def __init__(self, call_id: _Optional[str] = ..., binding_id: _Optional[str] = ...) -> None: ...

class Observed(_message.Message):
    __slots__ = ("worker", "batch", "gap_ns", "between_ns", "calls", "total_ns")
    WORKER_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    GAP_NS_FIELD_NUMBER: _ClassVar[int]
    BETWEEN_NS_FIELD_NUMBER: _ClassVar[int]
    CALLS_FIELD_NUMBER: _ClassVar[int]
    TOTAL_NS_FIELD_NUMBER: _ClassVar[int]
    worker: str
    batch: int
    gap_ns: int
    between_ns: int
    calls: int
    total_ns: int
    def __init__(self, worker: _Optional[str] = ..., batch: _Optional[int] = ..., gap_ns: _Optional[int] = ..., between_ns: _Optional[int] = ..., calls: _Optional[int] = ..., total_ns: _Optional[int] = ...) -> None: ...

class CallDown(_message.Message):
    __slots__ = ("bound", "refused", "hint", "unbound")
    BOUND_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    HINT_FIELD_NUMBER: _ClassVar[int]
    UNBOUND_FIELD_NUMBER: _ClassVar[int]
    bound: Bound
    refused: Refused
    hint: Hint
    unbound: Unbound
    def __init__(self, bound: _Optional[_Union[Bound, _Mapping]] = ..., refused: _Optional[_Union[Refused, _Mapping]] = ..., hint: _Optional[_Union[Hint, _Mapping]] = ..., unbound: _Optional[_Union[Unbound, _Mapping]] = ...) -> None: ...

class Bound(_message.Message):
    __slots__ = ("call_id", "binding", "skips", "queued_ns")
    CALL_ID_FIELD_NUMBER: _ClassVar[int]
    BINDING_FIELD_NUMBER: _ClassVar[int]
    SKIPS_FIELD_NUMBER: _ClassVar[int]
    QUEUED_NS_FIELD_NUMBER: _ClassVar[int]
    call_id: str
    binding: str
    skips: int
    queued_ns: int
    def __init__(self, call_id: _Optional[str] = ..., binding: _Optional[str] = ..., skips: _Optional[int] = ..., queued_ns: _Optional[int] = ...) -> None: ...

class Refused(_message.Message):
    __slots__ = ("call_id", "failure")
    CALL_ID_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    call_id: str
    failure: Failure
    def __init__(self, call_id: _Optional[str] = ..., failure: _Optional[_Union[Failure, _Mapping]] = ...) -> None: ...

class Unbound(_message.Message):
    __slots__ = ("binding_id", "call_id", "failure")
    BINDING_ID_FIELD_NUMBER: _ClassVar[int]
    CALL_ID_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    binding_id: str
    call_id: str
    failure: Failure
    def __init__(self, binding_id: _Optional[str] = ..., call_id: _Optional[str] = ..., failure: _Optional[_Union[Failure, _Mapping]] = ...) -> None: ...

class Hint(_message.Message):
    __slots__ = ("worker", "gap_ns", "load_ns", "known", "policy_needs_batch")
    WORKER_FIELD_NUMBER: _ClassVar[int]
    GAP_NS_FIELD_NUMBER: _ClassVar[int]
    LOAD_NS_FIELD_NUMBER: _ClassVar[int]
    KNOWN_FIELD_NUMBER: _ClassVar[int]
    POLICY_NEEDS_BATCH_FIELD_NUMBER: _ClassVar[int]
    worker: str
    gap_ns: int
    load_ns: int
    known: bool
    policy_needs_batch: bool
    def __init__(self, worker: _Optional[str] = ..., gap_ns: _Optional[int] = ..., load_ns: _Optional[int] = ..., known: _Optional[bool] = ..., policy_needs_batch: _Optional[bool] = ...) -> None: ...

class Model(_message.Message):
    __slots__ = ("digest", "worker", "kind", "class_name", "tensor_bytes", "package_bytes", "python", "torch", "distributions_json", "environment")
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    WORKER_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    CLASS_NAME_FIELD_NUMBER: _ClassVar[int]
    TENSOR_BYTES_FIELD_NUMBER: _ClassVar[int]
    PACKAGE_BYTES_FIELD_NUMBER: _ClassVar[int]
    PYTHON_FIELD_NUMBER: _ClassVar[int]
    TORCH_FIELD_NUMBER: _ClassVar[int]
    DISTRIBUTIONS_JSON_FIELD_NUMBER: _ClassVar[int]
    ENVIRONMENT_FIELD_NUMBER: _ClassVar[int]
    digest: str
    worker: str
    kind: str
    class_name: str
    tensor_bytes: int
    package_bytes: int
    python: str
    torch: str
    distributions_json: str
    environment: str
    def __init__(self, digest: _Optional[str] = ..., worker: _Optional[str] = ..., kind: _Optional[str] = ..., class_name: _Optional[str] = ..., tensor_bytes: _Optional[int] = ..., package_bytes: _Optional[int] = ..., python: _Optional[str] = ..., torch: _Optional[str] = ..., distributions_json: _Optional[str] = ..., environment: _Optional[str] = ...) -> None: ...

class Registered(_message.Message):
    __slots__ = ("stored", "failure")
    STORED_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    stored: bool
    failure: Failure
    def __init__(self, stored: _Optional[bool] = ..., failure: _Optional[_Union[Failure, _Mapping]] = ...) -> None: ...

class NodeUp(_message.Message):
    __slots__ = ("hello", "report", "turn_started", "turn_ended", "loaded", "binding_ended", "stored", "more")
    HELLO_FIELD_NUMBER: _ClassVar[int]
    REPORT_FIELD_NUMBER: _ClassVar[int]
    TURN_STARTED_FIELD_NUMBER: _ClassVar[int]
    TURN_ENDED_FIELD_NUMBER: _ClassVar[int]
    LOADED_FIELD_NUMBER: _ClassVar[int]
    BINDING_ENDED_FIELD_NUMBER: _ClassVar[int]
    STORED_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    hello: NodeHello
    report: SliceReport
    turn_started: TurnStarted
    turn_ended: TurnEnded
    loaded: Loaded
    binding_ended: BindingEnded
    stored: Stored
    more: _containers.RepeatedCompositeFieldContainer[NodeUp]
    def __init__(self, hello: _Optional[_Union[NodeHello, _Mapping]] = ..., report: _Optional[_Union[SliceReport, _Mapping]] = ..., turn_started: _Optional[_Union[TurnStarted, _Mapping]] = ..., turn_ended: _Optional[_Union[TurnEnded, _Mapping]] = ..., loaded: _Optional[_Union[Loaded, _Mapping]] = ..., binding_ended: _Optional[_Union[BindingEnded, _Mapping]] = ..., stored: _Optional[_Union[Stored, _Mapping]] = ..., more: _Optional[_Iterable[_Union[NodeUp, _Mapping]]] = ...) -> None: ...

class NodeHello(_message.Message):
    __slots__ = ("node", "door_path", "door_address", "control_address", "slices", "zygotes")
    NODE_FIELD_NUMBER: _ClassVar[int]
    DOOR_PATH_FIELD_NUMBER: _ClassVar[int]
    DOOR_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    CONTROL_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    SLICES_FIELD_NUMBER: _ClassVar[int]
    ZYGOTES_FIELD_NUMBER: _ClassVar[int]
    node: str
    door_path: str
    door_address: str
    control_address: str
    slices: _containers.RepeatedCompositeFieldContainer[SliceSpec]
    zygotes: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, node: _Optional[str] = ..., door_path: _Optional[str] = ..., door_address: _Optional[str] = ..., control_address: _Optional[str] = ..., slices: _Optional[_Iterable[_Union[SliceSpec, _Mapping]]] = ..., zygotes: _Optional[_Iterable[str]] = ...) -> None: ...

class SliceSpec(_message.Message):
    __slots__ = ("id", "node", "index", "gpcs", "memory_bytes", "kind")
    ID_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    GPCS_FIELD_NUMBER: _ClassVar[int]
    MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    id: str
    node: str
    index: int
    gpcs: int
    memory_bytes: int
    kind: str
    def __init__(self, id: _Optional[str] = ..., node: _Optional[str] = ..., index: _Optional[int] = ..., gpcs: _Optional[int] = ..., memory_bytes: _Optional[int] = ..., kind: _Optional[str] = ...) -> None: ...

class CachedWorker(_message.Message):
    __slots__ = ("key", "status", "held_bytes", "last_used_ns", "models", "exclusive_to")
    KEY_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    HELD_BYTES_FIELD_NUMBER: _ClassVar[int]
    LAST_USED_NS_FIELD_NUMBER: _ClassVar[int]
    MODELS_FIELD_NUMBER: _ClassVar[int]
    EXCLUSIVE_TO_FIELD_NUMBER: _ClassVar[int]
    key: str
    status: str
    held_bytes: int
    last_used_ns: int
    models: _containers.RepeatedScalarFieldContainer[str]
    exclusive_to: str
    def __init__(self, key: _Optional[str] = ..., status: _Optional[str] = ..., held_bytes: _Optional[int] = ..., last_used_ns: _Optional[int] = ..., models: _Optional[_Iterable[str]] = ..., exclusive_to: _Optional[str] = ...) -> None: ...

class SliceReport(_message.Message):
    __slots__ = ("spec", "sequence", "pool", "status", "free_bytes", "workers", "bindings", "turn", "turn_started_ns", "waiting")
    SPEC_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    POOL_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    FREE_BYTES_FIELD_NUMBER: _ClassVar[int]
    WORKERS_FIELD_NUMBER: _ClassVar[int]
    BINDINGS_FIELD_NUMBER: _ClassVar[int]
    TURN_FIELD_NUMBER: _ClassVar[int]
    TURN_STARTED_NS_FIELD_NUMBER: _ClassVar[int]
    WAITING_FIELD_NUMBER: _ClassVar[int]
    spec: SliceSpec
    sequence: int
    pool: str
    status: str
    free_bytes: int
    workers: _containers.RepeatedCompositeFieldContainer[CachedWorker]
    bindings: _containers.RepeatedScalarFieldContainer[str]
    turn: str
    turn_started_ns: int
    waiting: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, spec: _Optional[_Union[SliceSpec, _Mapping]] = ..., sequence: _Optional[int] = ..., pool: _Optional[str] = ..., status: _Optional[str] = ..., free_bytes: _Optional[int] = ..., workers: _Optional[_Iterable[_Union[CachedWorker, _Mapping]]] = ..., bindings: _Optional[_Iterable[str]] = ..., turn: _Optional[str] = ..., turn_started_ns: _Optional[int] = ..., waiting: _Optional[_Iterable[str]] = ...) -> None: ...

class TurnStarted(_message.Message):
    __slots__ = ("binding_id", "slice", "hit")
    BINDING_ID_FIELD_NUMBER: _ClassVar[int]
    SLICE_FIELD_NUMBER: _ClassVar[int]
    HIT_FIELD_NUMBER: _ClassVar[int]
    binding_id: str
    slice: str
    hit: bool
    def __init__(self, binding_id: _Optional[str] = ..., slice: _Optional[str] = ..., hit: _Optional[bool] = ...) -> None: ...

class TurnEnded(_message.Message):
    __slots__ = ("binding_id", "slice", "worker", "calls", "infer_ns", "batch", "handover_ns")
    BINDING_ID_FIELD_NUMBER: _ClassVar[int]
    SLICE_FIELD_NUMBER: _ClassVar[int]
    WORKER_FIELD_NUMBER: _ClassVar[int]
    CALLS_FIELD_NUMBER: _ClassVar[int]
    INFER_NS_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    HANDOVER_NS_FIELD_NUMBER: _ClassVar[int]
    binding_id: str
    slice: str
    worker: str
    calls: int
    infer_ns: int
    batch: int
    handover_ns: int
    def __init__(self, binding_id: _Optional[str] = ..., slice: _Optional[str] = ..., worker: _Optional[str] = ..., calls: _Optional[int] = ..., infer_ns: _Optional[int] = ..., batch: _Optional[int] = ..., handover_ns: _Optional[int] = ...) -> None: ...

class Loaded(_message.Message):
    __slots__ = ("slice", "worker", "load_ns", "held_bytes", "failure", "evicted")
    SLICE_FIELD_NUMBER: _ClassVar[int]
    WORKER_FIELD_NUMBER: _ClassVar[int]
    LOAD_NS_FIELD_NUMBER: _ClassVar[int]
    HELD_BYTES_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    EVICTED_FIELD_NUMBER: _ClassVar[int]
    slice: str
    worker: str
    load_ns: int
    held_bytes: int
    failure: Failure
    evicted: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, slice: _Optional[str] = ..., worker: _Optional[str] = ..., load_ns: _Optional[int] = ..., held_bytes: _Optional[int] = ..., failure: _Optional[_Union[Failure, _Mapping]] = ..., evicted: _Optional[_Iterable[str]] = ...) -> None: ...

class BindingEnded(_message.Message):
    __slots__ = ("binding_id", "slice", "failure")
    BINDING_ID_FIELD_NUMBER: _ClassVar[int]
    SLICE_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    binding_id: str
    slice: str
    failure: Failure
    def __init__(self, binding_id: _Optional[str] = ..., slice: _Optional[str] = ..., failure: _Optional[_Union[Failure, _Mapping]] = ...) -> None: ...

class Stored(_message.Message):
    __slots__ = ("digests", "whole", "functions")
    DIGESTS_FIELD_NUMBER: _ClassVar[int]
    WHOLE_FIELD_NUMBER: _ClassVar[int]
    FUNCTIONS_FIELD_NUMBER: _ClassVar[int]
    digests: _containers.RepeatedScalarFieldContainer[str]
    whole: bool
    functions: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, digests: _Optional[_Iterable[str]] = ..., whole: _Optional[bool] = ..., functions: _Optional[_Iterable[str]] = ...) -> None: ...

class NodeDown(_message.Message):
    __slots__ = ("prepare", "unbind", "wanted", "epoch", "keep", "hold", "more")
    PREPARE_FIELD_NUMBER: _ClassVar[int]
    UNBIND_FIELD_NUMBER: _ClassVar[int]
    WANTED_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    KEEP_FIELD_NUMBER: _ClassVar[int]
    HOLD_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    prepare: Prepare
    unbind: Unbind
    wanted: Wanted
    epoch: Epoch
    keep: Keep
    hold: Hold
    more: _containers.RepeatedCompositeFieldContainer[NodeDown]
    def __init__(self, prepare: _Optional[_Union[Prepare, _Mapping]] = ..., unbind: _Optional[_Union[Unbind, _Mapping]] = ..., wanted: _Optional[_Union[Wanted, _Mapping]] = ..., epoch: _Optional[_Union[Epoch, _Mapping]] = ..., keep: _Optional[_Union[Keep, _Mapping]] = ..., hold: _Optional[_Union[Hold, _Mapping]] = ..., more: _Optional[_Iterable[_Union[NodeDown, _Mapping]]] = ...) -> None: ...

class Prepare(_message.Message):
    __slots__ = ("binding", "models", "sources", "usual", "load_ns", "held_bytes")
    BINDING_FIELD_NUMBER: _ClassVar[int]
    MODELS_FIELD_NUMBER: _ClassVar[int]
    SOURCES_FIELD_NUMBER: _ClassVar[int]
    USUAL_FIELD_NUMBER: _ClassVar[int]
    LOAD_NS_FIELD_NUMBER: _ClassVar[int]
    HELD_BYTES_FIELD_NUMBER: _ClassVar[int]
    binding: str
    models: _containers.RepeatedCompositeFieldContainer[Model]
    sources: _containers.RepeatedCompositeFieldContainer[Source]
    usual: Usual
    load_ns: int
    held_bytes: int
    def __init__(self, binding: _Optional[str] = ..., models: _Optional[_Iterable[_Union[Model, _Mapping]]] = ..., sources: _Optional[_Iterable[_Union[Source, _Mapping]]] = ..., usual: _Optional[_Union[Usual, _Mapping]] = ..., load_ns: _Optional[int] = ..., held_bytes: _Optional[int] = ...) -> None: ...

class Source(_message.Message):
    __slots__ = ("digest", "addresses")
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    ADDRESSES_FIELD_NUMBER: _ClassVar[int]
    digest: str
    addresses: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, digest: _Optional[str] = ..., addresses: _Optional[_Iterable[str]] = ...) -> None: ...

class Usual(_message.Message):
    __slots__ = ("gap_ns", "between_ns", "calls")
    GAP_NS_FIELD_NUMBER: _ClassVar[int]
    BETWEEN_NS_FIELD_NUMBER: _ClassVar[int]
    CALLS_FIELD_NUMBER: _ClassVar[int]
    gap_ns: int
    between_ns: int
    calls: float
    def __init__(self, gap_ns: _Optional[int] = ..., between_ns: _Optional[int] = ..., calls: _Optional[float] = ...) -> None: ...

class Unbind(_message.Message):
    __slots__ = ("binding_id", "failure")
    BINDING_ID_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    binding_id: str
    failure: Failure
    def __init__(self, binding_id: _Optional[str] = ..., failure: _Optional[_Union[Failure, _Mapping]] = ...) -> None: ...

class Wanted(_message.Message):
    __slots__ = ("digests", "workers")
    DIGESTS_FIELD_NUMBER: _ClassVar[int]
    WORKERS_FIELD_NUMBER: _ClassVar[int]
    digests: _containers.RepeatedScalarFieldContainer[str]
    workers: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, digests: _Optional[_Iterable[str]] = ..., workers: _Optional[_Iterable[str]] = ...) -> None: ...

class Hold(_message.Message):
    __slots__ = ("model", "addresses")
    MODEL_FIELD_NUMBER: _ClassVar[int]
    ADDRESSES_FIELD_NUMBER: _ClassVar[int]
    model: Model
    addresses: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, model: _Optional[_Union[Model, _Mapping]] = ..., addresses: _Optional[_Iterable[str]] = ...) -> None: ...

class Epoch(_message.Message):
    __slots__ = ("epoch",)
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    def __init__(self, epoch: _Optional[int] = ...) -> None: ...

class Keep(_message.Message):
    __slots__ = ("slice", "items")
    SLICE_FIELD_NUMBER: _ClassVar[int]
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    slice: str
    items: _containers.RepeatedCompositeFieldContainer[KeepItem]
    def __init__(self, slice: _Optional[str] = ..., items: _Optional[_Iterable[_Union[KeepItem, _Mapping]]] = ...) -> None: ...

class KeepItem(_message.Message):
    __slots__ = ("worker", "queued", "calls_per_s")
    WORKER_FIELD_NUMBER: _ClassVar[int]
    QUEUED_FIELD_NUMBER: _ClassVar[int]
    CALLS_PER_S_FIELD_NUMBER: _ClassVar[int]
    worker: str
    queued: int
    calls_per_s: float
    def __init__(self, worker: _Optional[str] = ..., queued: _Optional[int] = ..., calls_per_s: _Optional[float] = ...) -> None: ...

class AdmitRequest(_message.Message):
    __slots__ = ("slice", "worker", "needed_bytes", "never", "keep")
    SLICE_FIELD_NUMBER: _ClassVar[int]
    WORKER_FIELD_NUMBER: _ClassVar[int]
    NEEDED_BYTES_FIELD_NUMBER: _ClassVar[int]
    NEVER_FIELD_NUMBER: _ClassVar[int]
    KEEP_FIELD_NUMBER: _ClassVar[int]
    slice: SliceReport
    worker: str
    needed_bytes: int
    never: _containers.RepeatedScalarFieldContainer[str]
    keep: _containers.RepeatedCompositeFieldContainer[KeepItem]
    def __init__(self, slice: _Optional[_Union[SliceReport, _Mapping]] = ..., worker: _Optional[str] = ..., needed_bytes: _Optional[int] = ..., never: _Optional[_Iterable[str]] = ..., keep: _Optional[_Iterable[_Union[KeepItem, _Mapping]]] = ...) -> None: ...

class AdmitAnswer(_message.Message):
    __slots__ = ("victims", "reason", "failure")
    VICTIMS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    victims: _containers.RepeatedScalarFieldContainer[str]
    reason: str
    failure: Failure
    def __init__(self, victims: _Optional[_Iterable[str]] = ..., reason: _Optional[str] = ..., failure: _Optional[_Union[Failure, _Mapping]] = ...) -> None: ...

class PullRequest(_message.Message):
    __slots__ = ("digest", "function")
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    FUNCTION_FIELD_NUMBER: _ClassVar[int]
    digest: str
    function: str
    def __init__(self, digest: _Optional[str] = ..., function: _Optional[str] = ...) -> None: ...

class Chunk(_message.Message):
    __slots__ = ("header", "data", "last", "spoken")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    SPOKEN_FIELD_NUMBER: _ClassVar[int]
    header: str
    data: bytes
    last: bool
    spoken: bytes
    def __init__(self, header: _Optional[str] = ..., data: _Optional[bytes] = ..., last: _Optional[bool] = ..., spoken: _Optional[bytes] = ...) -> None: ...

class FunctionRef(_message.Message):
    __slots__ = ("namespace", "name")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    name: str
    def __init__(self, namespace: _Optional[str] = ..., name: _Optional[str] = ...) -> None: ...

class ReplicaSet(_message.Message):
    __slots__ = ("function", "deployment_json", "replicas", "revision", "uid", "gpu", "credential", "secrets", "generation")
    class SecretsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: bytes
        def __init__(self, key: _Optional[str] = ..., value: _Optional[bytes] = ...) -> None: ...
    FUNCTION_FIELD_NUMBER: _ClassVar[int]
    DEPLOYMENT_JSON_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    UID_FIELD_NUMBER: _ClassVar[int]
    GPU_FIELD_NUMBER: _ClassVar[int]
    CREDENTIAL_FIELD_NUMBER: _ClassVar[int]
    SECRETS_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    function: FunctionRef
    deployment_json: str
    replicas: int
    revision: str
    uid: int
    gpu: bool
    credential: str
    secrets: _containers.ScalarMap[str, bytes]
    generation: int
    def __init__(self, function: _Optional[_Union[FunctionRef, _Mapping]] = ..., deployment_json: _Optional[str] = ..., replicas: _Optional[int] = ..., revision: _Optional[str] = ..., uid: _Optional[int] = ..., gpu: _Optional[bool] = ..., credential: _Optional[str] = ..., secrets: _Optional[_Mapping[str, bytes]] = ..., generation: _Optional[int] = ...) -> None: ...

class HostAnswer(_message.Message):
    __slots__ = ("failure",)
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    failure: Failure
    def __init__(self, failure: _Optional[_Union[Failure, _Mapping]] = ...) -> None: ...

class HostState(_message.Message):
    __slots__ = ("functions",)
    FUNCTIONS_FIELD_NUMBER: _ClassVar[int]
    functions: _containers.RepeatedCompositeFieldContainer[FunctionState]
    def __init__(self, functions: _Optional[_Iterable[_Union[FunctionState, _Mapping]]] = ...) -> None: ...

class FunctionState(_message.Message):
    __slots__ = ("function", "generation", "replicas")
    FUNCTION_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    function: FunctionRef
    generation: int
    replicas: _containers.RepeatedCompositeFieldContainer[ReplicaState]
    def __init__(self, function: _Optional[_Union[FunctionRef, _Mapping]] = ..., generation: _Optional[int] = ..., replicas: _Optional[_Iterable[_Union[ReplicaState, _Mapping]]] = ...) -> None: ...

class ReplicaState(_message.Message):
    __slots__ = ("id", "address", "status", "why", "restarts", "started_unix_ns", "generation", "cpu_millicores", "memory_bytes")
    ID_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    RESTARTS_FIELD_NUMBER: _ClassVar[int]
    STARTED_UNIX_NS_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    CPU_MILLICORES_FIELD_NUMBER: _ClassVar[int]
    MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    id: str
    address: str
    status: str
    why: str
    restarts: int
    started_unix_ns: int
    generation: int
    cpu_millicores: float
    memory_bytes: int
    def __init__(self, id: _Optional[str] = ..., address: _Optional[str] = ..., status: _Optional[str] = ..., why: _Optional[str] = ..., restarts: _Optional[int] = ..., started_unix_ns: _Optional[int] = ..., generation: _Optional[int] = ..., cpu_millicores: _Optional[float] = ..., memory_bytes: _Optional[int] = ...) -> None: ...

class LogsRequest(_message.Message):
    __slots__ = ("function", "instance", "tail", "follow", "since_unix_ns")
    FUNCTION_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    TAIL_FIELD_NUMBER: _ClassVar[int]
    FOLLOW_FIELD_NUMBER: _ClassVar[int]
    SINCE_UNIX_NS_FIELD_NUMBER: _ClassVar[int]
    function: FunctionRef
    instance: str
    tail: int
    follow: bool
    since_unix_ns: int
    def __init__(self, function: _Optional[_Union[FunctionRef, _Mapping]] = ..., instance: _Optional[str] = ..., tail: _Optional[int] = ..., follow: _Optional[bool] = ..., since_unix_ns: _Optional[int] = ...) -> None: ...

class LogLine(_message.Message):
    __slots__ = ("name", "namespace", "instance", "unix_ns", "text")
    NAME_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    UNIX_NS_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    name: str
    namespace: str
    instance: str
    unix_ns: int
    text: str
    def __init__(self, name: _Optional[str] = ..., namespace: _Optional[str] = ..., instance: _Optional[str] = ..., unix_ns: _Optional[int] = ..., text: _Optional[str] = ...) -> None: ...

class ImageRef(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class Image(_message.Message):
    __slots__ = ("failure", "digest", "labels_json", "environment_json", "fprocess", "upstream_url")
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    LABELS_JSON_FIELD_NUMBER: _ClassVar[int]
    ENVIRONMENT_JSON_FIELD_NUMBER: _ClassVar[int]
    FPROCESS_FIELD_NUMBER: _ClassVar[int]
    UPSTREAM_URL_FIELD_NUMBER: _ClassVar[int]
    failure: Failure
    digest: str
    labels_json: str
    environment_json: str
    fprocess: str
    upstream_url: str
    def __init__(self, failure: _Optional[_Union[Failure, _Mapping]] = ..., digest: _Optional[str] = ..., labels_json: _Optional[str] = ..., environment_json: _Optional[str] = ..., fprocess: _Optional[str] = ..., upstream_url: _Optional[str] = ...) -> None: ...
