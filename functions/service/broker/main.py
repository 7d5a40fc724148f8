"""A broker's process: its loop, its HTTP server, and the conversation with the host.

Imported by the broker zygote; nothing here makes a socket, a loop or a gRPC object before `run`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import socket
import time

import uvloop
from uvicorn.server import ServerState

from functions.service.broker.app import Broker
from functions.service.broker.doors import Doors
from functions.service.broker.invocations import Invocations
from functions.service.broker.reporting import CallReport
from functions.service.broker.runtime_side import RuntimeSide
from functions.service.broker.upstream import NotServing, Upstream
from functions.service.orders import BrokerOrder
from proto.wire import frames, journal
from proto.wire.calls import SchedulerCalls
from proto.wire.http import serving

log = logging.getLogger(__name__)

PROBE_FIRST_S, PROBE_LIMIT_S = 0.01, 0.1
HELLO_S = 5.0
NO_HELLO = (
    "The function listens, but Slicewise's runtime in it has not said hello: was python started with -I, -E or -S, "
    "PYTHONPATH replaced, or torch not imported yet?"
)
KEEP_ALIVE_S = 90  # longer than any client of ours keeps an idle connection, so that it is the one to close


def run(order: BrokerOrder, control: socket.socket) -> int:
    """Serve until the host says stop or goes away; returns the exit status."""
    journal.configure(f"broker:{order.replica}", "WARNING")
    logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
    return int(uvloop.run(_serve(order, control)))


async def _serve(order: BrokerOrder, control_socket: socket.socket) -> int:
    control = frames.FrameConnection(control_socket)
    stop = asyncio.Event()
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((order.address, 0))
    upstream = Upstream(order.upstream_socket, order.upstream_host, order.upstream_port, order.uid)
    report = CallReport() if order.gpu and order.report_calls else None
    runtime, invocations = await _gpu_side(order, report) if order.gpu else (None, None)
    broker = Broker(order, upstream, invocations, report)
    config = serving.config(broker, KEEP_ALIVE_S, date_header=False)
    config.load()
    # uvicorn's own Server would wake ten times a second in every idle replica; its protocol is all we need.
    state = ServerState()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    server = await loop.create_server(lambda: serving.Front(config, state, {}), sock=listener, backlog=serving.BACKLOG)
    await control.send({"listening": listener.getsockname()[1]})
    host = asyncio.create_task(_obey(control, broker, upstream, runtime, stop), name="host")
    await stop.wait()
    host.cancel()
    server.close()
    return 0


async def _gpu_side(order: BrokerOrder, report: CallReport | None) -> tuple[RuntimeSide, Invocations]:
    doors = Doors(order.node, order.door_path, order.credential)
    invocations = Invocations(order, doors, None)
    if order.scheduler:
        calls = SchedulerCalls(order.scheduler, order.credential, order.replica, on_unbound=invocations.unbound)
        await calls.start()
        invocations.calls = calls
    return RuntimeSide(order, invocations, doors, report), invocations


async def _obey(
    control: frames.FrameConnection,
    broker: Broker,
    upstream: Upstream,
    runtime: RuntimeSide | None,
    stop: asyncio.Event,
) -> None:
    """Carry out what the host tells; its end is ours."""
    watching: asyncio.Task[None] | None = None
    draining: asyncio.Task[None] | None = None
    with contextlib.suppress(frames.FrameError):
        while True:
            header, fds = await control.receive()
            frames.close_fds(fds)
            if "started" in header:
                broker.gone.clear()
                if broker.report is not None:
                    broker.report.started()
                watching = asyncio.create_task(_until_serving(control, broker, upstream, runtime), name="readiness")
            elif "gone" in header:
                if watching is not None:
                    watching.cancel()
                broker.gone_why = header["gone"]
                broker.serving.clear()
                broker.gone.set()
                if broker.report is not None:
                    broker.report.gone()
                if runtime is not None:  # not when the next one starts: that may be heard before the host's word of it
                    runtime.forget()
                upstream.forget()
            elif "drain" in header and draining is None:
                draining = asyncio.create_task(_drain(control, broker, header["drain"]), name="drain")
    stop.set()


async def _until_serving(
    control: frames.FrameConnection, broker: Broker, upstream: Upstream, runtime: RuntimeSide | None
) -> None:
    """Ask the function until it listens (and a GPU function until it has said hello), then tell the host.

    A server of the user's own may say hello only when it first touches a model, so it is not made to wait; the
    host hears of it all the same, and of what the runtime notes later.
    """
    pause = PROBE_FIRST_S
    while True:
        try:
            await upstream.probe(broker.ready_path)
            break
        except NotServing:
            await asyncio.sleep(pause)
            pause = min(PROBE_LIMIT_S, pause * 1.5)
    if runtime is not None and broker.template:
        await _until_greeted(control, runtime)
        await runtime.greeted.wait()
    broker.gone_why = ""
    broker.serving.set()
    if broker.report is not None:
        broker.report.serving()
    await control.send({"ready": True})
    if runtime is not None:
        await _until_greeted(control, runtime)
        await runtime.greeted.wait()
        await control.send({"ready": True})
        await runtime.noted.wait()
        await control.send({"unready": runtime.note})


async def _until_greeted(control: frames.FrameConnection, runtime: RuntimeSide) -> None:
    try:
        async with asyncio.timeout(HELLO_S):
            await runtime.greeted.wait()
    except TimeoutError:
        await control.send({"unready": NO_HELLO})


async def _drain(control: frames.FrameConnection, broker: Broker, quiet_s: float) -> None:
    """Tell the host when nothing is in flight and nobody has called for a while."""
    broker.draining = True
    since = time.monotonic()
    while broker.in_flight or time.monotonic() - max(since, broker.last_request) < quiet_s:  # noqa: ASYNC110
        await asyncio.sleep(0.02)  # rare, and cheaper than an event for every call
    await control.send({"drained": True})
