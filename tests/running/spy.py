"""Modules that look around from inside a worker; packed by name, so they travel as sources."""

import importlib
import os
import socket
import sys
from typing import Any

import torch


class Spy(torch.nn.Module):  # type: ignore[misc]
    """Tells what a model's code can see."""

    def forward(self) -> dict[str, Any]:
        """Identity, surroundings, and whether the network is reachable."""
        probe = socket.socket()
        probe.settimeout(0.2)
        try:
            probe.connect(("127.0.0.1", 22))
            network = "connected"
        except OSError as error:
            network = error.strerror or str(error)
        finally:
            probe.close()
        ours = [name for name in sys.modules if name.partition(".")[0] in ("proto", "gpu_manager", "grpc")]
        return {
            "uid": os.getuid(),
            "groups": os.getgroups(),
            "tmp": sorted(os.listdir("/tmp")),
            "network": network,
            "interfaces": [name for _, name in socket.if_nameindex()],
            "ours": ours,
            "environment": sorted(name for name in os.environ if name.startswith("SLICEWISE")),
            "threads": torch.get_num_threads(),
            "descriptors": [os.readlink(f"/proc/thread-self/fd/{fd}") for fd in range(64) if _open(fd)],
        }

    def look(self, module: str, *paths: str) -> list[str]:
        """The word that a module holds, and what stands in files, or why it cannot be read."""
        found = [str(importlib.import_module(module).WORD)]
        for path in paths:
            try:
                with open(path) as file:
                    found.append(file.read())
            except OSError as error:
                found.append(error.strerror)
        return found

    def spend(self, count: int) -> torch.Tensor:
        """Allocate `count` floats."""
        return torch.ones(count).sum()

    def fail(self, kind: str) -> None:
        """Raise."""
        raise {"value": ValueError("no such value"), "key": KeyError("k"), "exit": SystemExit(3)}[kind]


class Counter(torch.nn.Module):  # type: ignore[misc]
    """State of every kind that a call can change."""

    total: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(3))
        self.weight = torch.nn.Parameter(torch.ones(2))
        self.seen: list[str] = []
        self.last: str | None = None
        self.nested = {"inner": {"count": 0}}

    def forward(self, how: str) -> list[Any]:
        """Change something, tell everything."""
        if how == "buffer":
            self.total += 1
        elif how == "replace":
            self.total = self.total + 1
        elif how == "list":
            self.seen.append(how)
        elif how == "attribute":
            self.last = how
        elif how == "new":
            self.extra = how
        elif how == "nested":
            self.nested["inner"]["count"] += 1
        elif how == "weight":
            self.weight.mul_(2)
        return [
            self.total,
            list(self.seen),
            self.last,
            self.nested["inner"]["count"],
            self.weight,
            hasattr(self, "extra"),
        ]


def _open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True
