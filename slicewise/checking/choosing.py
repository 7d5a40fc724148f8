"""Which slices a check is about, and the one that it runs on."""

from __future__ import annotations

from pathlib import Path

from gpu_manager.service.devices import cpu
from proto.types.errors import SlicewiseError
from slicewise.client import logins
from slicewise.client.http import Gateway
from slicewise.launcher import issuing
from slicewise.launcher.layout import Layout
from slicewise.launcher.truth import READY, look

Slices = list[tuple[int, int]]
_TIMEOUT_S = 5.0


def slices(spec: str, state_dir: Path) -> tuple[Slices, str]:
    """((GPCs, bytes) of each, whose they are): those given, a running platform's, else this machine's default.

    Raises SlicewiseError `bad_request` for a specification that is none.
    """
    if spec:
        return cpu.parse(spec), "--slices"
    running = _running(Layout(state_dir))
    if running:
        return running, f"the platform that runs on {state_dir}"
    devices = cpu.CpuSlices("local", "").slices()
    return [(item.spec.gpcs, item.spec.memory_bytes) for item in devices], "this machine's default"


def largest(chosen: Slices) -> str:
    """The specification of a platform with the one largest slice: there the handler shows what it needs."""
    gpcs, size = max(chosen, key=lambda item: (item[1], item[0]))
    return f"1x{gpcs}g:{size}B"


def _running(layout: Layout) -> Slices:
    try:
        truth = look(layout)
        if truth.state != READY:
            return []
        gateway = Gateway(truth.url, logins.basic(issuing.USER, issuing.read(layout.password)))
        state = gateway.system("GET", "/system/scheduler/state", timeout_s=_TIMEOUT_S).json()
    except (SlicewiseError, OSError):
        return []  # it does not answer, or belongs to somebody else
    return [(int(item["gpcs"]), int(item["memory_bytes"])) for item in state["slices"]]
