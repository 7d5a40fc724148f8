"""`python -m gpu_manager.service`: one node's slices, until SIGTERM."""

from __future__ import annotations

import asyncio
import json
import logging
import signal
import sys

import uvloop

from gpu_manager.service.devices.choice import devices
from gpu_manager.service.doors.local import LocalDoor
from gpu_manager.service.doors.remote import ALLOWED, Control, RemoteDoor
from gpu_manager.service.link import SchedulerLink
from gpu_manager.service.node import Node
from gpu_manager.service.settings import GpuManagerSettings
from proto.types.errors import SlicewiseError
from proto.wire import journal, peers
from proto.wire.credentials import Trust
from proto.wire.generated import slicewise_pb2_grpc as rpc
from proto.wire.settings import load

_log = logging.getLogger(__name__)

NAME = "gpu_manager"
_STOP_GRACE_S = 0.5


async def serve(settings: GpuManagerSettings) -> None:
    """Serve until SIGTERM or SIGINT; raises SlicewiseError when it cannot start."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    trust = Trust.load(settings.trust)
    node = Node(settings, devices(settings), trust)
    link: SchedulerLink | None = None
    door: LocalDoor | None = None
    server = peers.server(trust, ALLOWED)
    control = Control(node)
    rpc.add_DoorServicer_to_server(RemoteDoor(node), server)
    rpc.add_GpuManagerServicer_to_server(control, server)
    try:
        port = peers.bind(server, settings.listen)
        address = settings.advertise or f"{settings.listen.rpartition(':')[0]}:{port}"
        await node.zygotes.start(now=settings.zygotes_at_start)
        metrics_port = node.metrics.serve(settings.metrics_listen) if settings.metrics_listen else 0
        door = LocalDoor(node, settings.door_path)
        await server.start()
        link = SchedulerLink(node, settings.scheduler, address)
        control.scheduler_connected = lambda: link is not None and link.connected
        ready = {
            "ready": True, "service": NAME, "node": settings.node, "listen": address,
            "door_path": str(settings.door_path), "slices": list(node.slices), "metrics_port": metrics_port,
        }  # fmt: skip
        print(json.dumps(ready), flush=True)
        await stop.wait()
    finally:
        if link is not None:
            await link.close()
        await server.stop(_STOP_GRACE_S)
        if door is not None:
            await door.close()
        await node.close()


def main() -> int:
    """Exit status: 0 after SIGTERM, 2 for bad settings, 1 when it could not serve."""
    settings = load(GpuManagerSettings, NAME)
    journal.configure(NAME, settings.log_level)
    try:
        uvloop.run(serve(settings))
    except SlicewiseError as error:
        _log.error("the GPU manager cannot serve: %s", error)
        return 2 if error.code == "bad_request" else 1
    except (OSError, ValueError) as error:
        _log.error("the GPU manager cannot serve: %s", error)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
