"""Models and what was measured of them."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Model:
    """One root module of a function, as registered by the runtime in the user's process.

    `tensor_bytes` are the bytes of all tensors; `package_bytes` the size of the file in the model
    store. `distributions` are (name, version) of the installed distributions that its classes
    come from; `environment` the address of the environment they are taken from.
    """

    digest: str
    worker: str  # WorkerKey
    kind: str  # "module" | "torchscript" | "exported"
    class_name: str
    tensor_bytes: int
    package_bytes: int
    python: str  # "3.11"
    torch: str  # "2.13.0+cpu"
    distributions: tuple[tuple[str, str], ...] = ()
    environment: str = ""


@dataclass(frozen=True, slots=True)
class Profile:
    """What is known of one worker key: seconds and bytes, learned from what ran.

    Times are nanoseconds. `call_ns` maps (gpcs, batch) to the mean time of one model call,
    `turn_ns` to that of all calls of an invocation, `gap_ns` is the usual time from the start of the
    invocation to its first call, `between_ns` between two calls of one invocation.
    """

    worker: str
    held_bytes: int = 0
    load_ns: int = 0
    gap_ns: int = 0
    between_ns: int = 0
    calls: float = 0.0
    samples: int = 0
    call_ns: dict[tuple[int, int], int] = field(default_factory=dict)
    turn_ns: dict[tuple[int, int], int] = field(default_factory=dict)


def runs_models_of(zygote: str, python: str, torch: str) -> bool:
    """Whether a zygote ("3.11/2.13.0+cpu") runs a model of this Python minor and torch ("": any).

    Builds of one torch version count as the same.
    """
    minor, _, version = zygote.partition("/")
    if not version or (python and python != minor):
        return False
    return not torch or torch.partition("+")[0] == version.partition("+")[0]
