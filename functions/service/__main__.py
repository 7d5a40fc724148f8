"""`python -m functions.service`: one function host, until SIGTERM."""

from __future__ import annotations

import asyncio
import compileall
import json
import logging
import os
import signal
import sys

from functions.service.ground import RUNTIME
from functions.service.host import Host
from functions.service.settings import Settings
from proto.types.errors import SlicewiseError
from proto.wire import journal, peers
from proto.wire.credentials import Trust
from proto.wire.generated import slicewise_pb2_grpc as rpc
from proto.wire.settings import load

STOP_S = 4.0  # of the five seconds that a service has after SIGTERM


async def serve(settings: Settings) -> int:
    """Run the host; returns its exit status."""
    settings.state_dir.mkdir(parents=True, exist_ok=True)
    settings.images_dir.mkdir(parents=True, exist_ok=True)
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    try:
        trust = Trust.load(settings.trust)
        host = Host(settings)
        server = peers.server(trust)
        rpc.add_FunctionHostServicer_to_server(host, server)
        port = peers.bind(server, settings.listen)
    except (SlicewiseError, OSError, ValueError) as error:
        logging.getLogger(__name__).error("cannot start: %s", error)
        return 1
    # Functions run as users who may not write beside the runtime: compiled once here, or anew at each of their starts.
    await asyncio.to_thread(compileall.compile_dir, str(RUNTIME), quiet=2)
    await host.start()
    await server.start()
    address = f"{settings.listen.rpartition(':')[0]}:{port}"
    print(json.dumps({"ready": True, "service": "host", "node": settings.node, "listen": address}), flush=True)
    await stop.wait()
    try:
        async with asyncio.timeout(STOP_S):
            await asyncio.gather(host.close(), server.stop(1.0))
    except TimeoutError:
        logging.getLogger(__name__).warning("some functions did not end in time and are killed")
        await host.stage.close()
        host.stage.leftovers.sweep_all()
    return 0


def main() -> None:
    """Entry point; children carry PDEATHSIG, so leaving at once leaves nothing behind."""
    settings = load(Settings, "host")
    journal.configure("host", settings.log_level)
    code = asyncio.run(serve(settings))
    sys.stdout.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
