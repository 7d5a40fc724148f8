"""The node as `slicewise status` shows it."""

from __future__ import annotations

import os
from typing import Any

from gpu_manager.service.clock import now_ns
from gpu_manager.service.node import Node


def status(node: Node, scheduler_connected: bool) -> dict[str, Any]:
    """Slices with their workers, zygotes, models; times in seconds, memory in bytes."""
    return {
        "node": node.settings.node,
        "epoch": node.fence.epoch,
        "scheduler_connected": scheduler_connected,
        "cache_manager_away": node.cache.away,
        "door_path": str(node.settings.door_path),
        "slices": [_slice(live) for live in node.slices.values()],
        "zygotes": [
            {"python": z.python, "version": z.version, "pid": z.pid, "restarts": max(0, z.restarts)}
            for z in node.zygotes.all
        ],
        "isolation_missing": sorted(
            {item for zygote in node.zygotes.all for item in zygote.missing}
            | ({"memory"} if node.cgroups.base is None else set())
            | (set() if os.geteuid() == 0 else {"uid", "network", "tmp", "processes"})  # known before a zygote says so
        ),
        "models": node.store.digests(),
    }


def _slice(live: Any) -> dict[str, Any]:
    spec = live.device.spec
    board = live.core.board
    pids = live.workers.pids()
    now = now_ns()
    state = live.core.report(0)
    return {
        "id": spec.id,
        "kind": spec.kind,
        "gpcs": spec.gpcs,
        "memory_bytes": spec.memory_bytes,
        "free_bytes": state.free_bytes,
        "status": str(state.status),
        "turn": state.turn,
        "bindings": list(state.bindings),
        "waiting_calls": sum(1 for _ in board.waiting()),
        "counts": live.core.counts(),
        "workers": [
            {
                "key": worker.key,
                "status": str(worker.phase),
                "pid": pids.get(worker.key, 0),
                "held_bytes": worker.charge,
                "models": list(worker.models),
                "idle_s": max(0.0, (now - worker.last_used_ns) / 1e9),
                "exclusive_to": worker.dirty_by if worker.dirty_by in board.bindings else "",
            }
            for worker in board.workers.values()
        ],
    }
