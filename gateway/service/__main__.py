"""`python -m gateway.service`: settings, signals, the event loop."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys

import uvloop

from gateway.service.assembling import serve
from gateway.service.settings import Settings
from proto.types.errors import SlicewiseError
from proto.wire import journal
from proto.wire.settings import load


async def _run(settings: Settings) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    await serve(settings, stop)


def main() -> None:
    """Run until SIGTERM; exit status 1 with one line on stderr when the gateway cannot start."""
    settings = load(Settings, "gateway")
    journal.configure("gateway", settings.log_level)
    logging.getLogger("uvicorn").setLevel(logging.WARNING)  # its starts and stops are told by us
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_run(settings))
    except SlicewiseError as error:
        print(f"gateway: {error.message}", file=sys.stderr)
        raise SystemExit(1) from error


if __name__ == "__main__":
    main()
