"""What the nodes of a platform cannot keep apart, in one line that whoever starts it reads.

The GPU managers know: their zygotes have tried. Without root nothing is kept apart, which a platform may be run with,
but not by mistake.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

_ASK_TIMEOUT_S = 5.0
_WORDS = {
    "uid": "files and processes of one function from another's",
    "network": "workers from the network",
    "tmp": "/tmp and the platform's folders from workers",
    "processes": "what a worker has started, once it has ended",
    "memory": "the memory of calls on CPU slices to the byte",
}


WITHOUT_ROOT = ("uid", "network", "tmp", "processes")


def missing(addresses: Mapping[str, int], credential: Path) -> list[str]:
    """The parts of isolation that some node lacks; a node that does not answer is left out."""
    import grpc  # the launcher itself forks services and must not carry its threads

    from proto.wire.generated import slicewise_pb2 as pb
    from proto.wire.generated import slicewise_pb2_grpc as rpc

    found: set[str] = set()
    metadata = (("authorization", f"Bearer {credential.read_text().strip()}"),)
    for name, port in addresses.items():
        if not name.startswith("gpu_manager-") or name.endswith("-metrics"):
            continue
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            try:
                told = rpc.GpuManagerStub(channel).GetStatus(pb.Empty(), metadata=metadata, timeout=_ASK_TIMEOUT_S)
            except grpc.RpcError:
                continue
        found.update(json.loads(told.text)["isolation_missing"])
    return sorted(found)


def sentence(missing_parts: Iterable[str]) -> str:
    """One line for people; "" when all is kept apart."""
    parts = list(missing_parts)
    if not parts:
        return ""
    what = "; ".join(_WORDS.get(part, part) for part in parts)
    if "uid" in parts:
        return f"single tenant: without root nothing here keeps apart {what}"
    return f"not kept apart here: {what}"
