"""Packages and calls for the GPU checks, made in a process of their own: it imports torch, the checks do not.

`python -m benchmarks.gpu_packages FOLDER MIB` writes NAME.package and NAME.call files and index.json into FOLDER.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

WORKER = "check.openfaas-fn@1"
WIDTH = 4096  # of a square matrix of 64 MiB; a call of the large model goes through all of them
STRETCH = 4096  # how many times its input the hungry model's answer is


def make(folder: Path, mib: int) -> dict[str, Any]:
    """The index: of each model its digest, kind, bytes, and the layout and expected answer of its calls."""
    import torch

    from tests.node_rig.models import call_payload, pack

    torch.manual_seed(7)
    matrices = max(1, mib // (WIDTH * WIDTH * 4 >> 20))
    given = torch.randn(3, 256)
    small = torch.nn.Linear(256, 16)
    models: dict[str, tuple[torch.nn.Module, dict[str, torch.Tensor]]] = {
        "small": (small, {"call": given}),
        "large": (
            torch.nn.Sequential(*(torch.nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(matrices))),
            {"call": torch.ones(1, WIDTH)},
        ),
        # It has no weights; what it takes is decided by its input.
        "hungry": (
            torch.nn.Upsample(scale_factor=STRETCH),
            {"little": torch.ones(1, 1, 1), "much": torch.ones(1, 1, 1 << 18)},  # 16 KiB and 4 GiB
        ),
    }
    index: dict[str, Any] = {}
    for name, (module, calls) in models.items():
        package = pack(module, WORKER)
        _save(package.fd, package.model.package_bytes, folder / f"{name}.package")
        entry = index[name] = {
            "digest": package.model.digest, "kind": package.model.kind, "bytes": package.model.package_bytes,
            "calls": {},
        }  # fmt: skip
        for call, argument in calls.items():
            layout, size, fd = call_payload(argument)
            _save(fd, size, folder / f"{name}-{call}.call")
            entry["calls"][call] = layout
    with torch.no_grad():
        index["small"]["expected"] = small(given).flatten().tolist()
    return index


def _save(fd: int, size: int, path: Path) -> None:
    with path.open("wb") as file:
        done = 0
        while done < size:
            done += os.sendfile(file.fileno(), fd, done, size - done)
    os.close(fd)


if __name__ == "__main__":
    target = Path(sys.argv[1])
    (target / "index.json").write_text(json.dumps(make(target, int(sys.argv[2]))))
