"""`slicewise up`: the platform on this machine, in the foreground or left running behind."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import click

from proto.types.errors import SlicewiseError
from slicewise.commands.options import state_dir_option

_REDRAW_S = 0.1
# How much longer than the platform itself a detached launcher may take to say how it went.
_GRACE_S = 30.0
_LAUNCHER_LOG = "launcher"


@click.command("up")
@click.option("--slices", metavar="SPEC", help="CPU slices, as 2x1g:512MiB,1x2g:1GiB; else GPUs, else two CPU slices.")
@click.option("--emulate", type=click.Path(path_type=Path), metavar="FILE", help="Emulate a scenario's slices.")
@click.option("--time-scale", type=float, metavar="X", help="Factor on the scenario's times.")
@click.option("--agents", type=int, metavar="N", help="Run N nodes as if on machines of their own.")
@click.option("--host", metavar="ADDRESS", help="Where gateway and metrics listen; 127.0.0.1.")
@click.option("--port", type=int, help="The gateway's port, 8080; 0 takes a free one.")
@click.option("--metrics-port", type=int, help="The port of /metrics, 8082; 0 takes a free one.")
@click.option("--policy", metavar="NAME", help="Scheduling policy to start with; else the one set last, lalb at first.")
@click.option("--login/--no-login", default=None, help="Store the login where faas-cli looks for it.")
@click.option("--detach", "-d", is_flag=True, help="Return when ready and leave it running.")
@click.option("--config", "file", type=click.Path(path_type=Path), help="YAML file with these settings.")
@click.option("--log-level", type=click.Choice(["DEBUG", "INFO", "WARNING", "ERROR"]))
@state_dir_option
def up_command(detach: bool, file: Path | None, state_dir: Path | None, **flags: Any) -> None:
    """Start the platform on this machine and keep it up until SIGTERM or Ctrl-C."""
    from slicewise.launcher.layout import Layout, default_state_dir
    from slicewise.launcher.settings import read_up_settings

    settings = read_up_settings(flags, file)
    layout = Layout((state_dir or default_state_dir()).absolute())
    if detach:
        _detached(layout, settings)
    else:
        _foreground(layout, settings)


def _foreground(layout: Any, settings: Any) -> None:
    from slicewise.launcher import progress
    from slicewise.launcher.launching import Launcher

    launcher = Launcher(layout, settings)
    launcher.prepare()
    display = progress.display()
    shown = threading.Event()

    def redraw() -> None:
        while not shown.wait(_REDRAW_S):
            display.show(launcher.board.document())

    def finish() -> None:
        _finish(layout, settings, launcher.board.url)

    def announce() -> None:
        shown.set()
        display.show(launcher.board.document())
        display.close()
        _tell(layout, launcher.board.url)

    drawing = threading.Thread(target=redraw, daemon=True)
    drawing.start()
    try:
        asyncio.run(launcher.run(finish, announce))
    finally:
        if not shown.is_set():
            shown.set()
            drawing.join()
            display.close()


def _detached(layout: Any, settings: Any) -> None:
    from slicewise.launcher import board, lock, progress

    # What the launcher would refuse is refused here, where somebody reads it.
    layout.make()
    holder = lock.Lock(layout.lock)
    holder.take()
    holder.release()
    started = time.time()
    log = os.open(layout.log(_LAUNCHER_LOG), os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)
    # The same command without --detach, in a session of its own, so that this terminal's end is not its end.
    arguments = [argument for argument in sys.argv[1:] if argument not in ("--detach", "-d")]
    process = subprocess.Popen(
        [sys.executable, "-m", "slicewise.cli", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        start_new_session=True,
        env={**os.environ, "SLICEWISE_STATE_DIR": str(layout.root)},
    )
    os.close(log)
    display = progress.display()
    deadline = time.monotonic() + settings.ready_timeout_s + _GRACE_S
    try:
        while True:
            document = board.read(layout.board)
            mine = document.get("pid") == process.pid and document.get("started", 0) >= started - 1
            if mine:
                display.show(document)
            if mine and document["phase"] == "ready":
                break
            if process.poll() is not None:
                raise SlicewiseError(_code(process.returncode), _last_words(layout))
            if time.monotonic() > deadline:
                process.terminate()
                raise SlicewiseError("unavailable", f"The launcher does not come up; see {layout.logs}.")
            time.sleep(_REDRAW_S)
    except KeyboardInterrupt:
        process.terminate()
        process.wait()
        raise
    finally:
        display.close()
    _tell(layout, document["url"])


def _code(status: int) -> str:
    return "bad_request" if status == 2 else "unavailable"


def _last_words(layout: Any) -> str:
    from slicewise.launcher import logs

    words = logs.tail(layout.log(_LAUNCHER_LOG), 1)
    return words[-1].removeprefix("slicewise: ") if words else f"The launcher ended; see {layout.logs}."


def _finish(layout: Any, settings: Any, url: str) -> None:
    """What is left to do when every process serves: the policy, the login, a look through the gateway."""
    from slicewise.client import logins
    from slicewise.client.http import Gateway, choose_gateway
    from slicewise.launcher import issuing

    password = issuing.read(layout.password)
    gateway = Gateway(url, logins.basic(issuing.USER, password))
    gateway.system("GET", "/system/info")
    if settings.policy:
        gateway.system("PUT", "/system/scheduler/policy", body={"name": settings.policy})
    if settings.login:
        try:
            logins.store(choose_gateway(url), issuing.USER, password)
        except SlicewiseError as error:
            # A home that cannot be written is no reason to stay down.
            click.echo(f"slicewise: {error.message}", err=True)


def _tell(layout: Any, url: str) -> None:
    from slicewise.launcher import isolation
    from slicewise.launcher.issuing import USER

    click.echo("Slicewise is ready.")
    click.echo(f"  gateway   {url}")
    click.echo(f"  user      {USER}")
    click.echo(f"  password  in {layout.password}")
    closed = layout.closed_parent()
    if os.geteuid() != 0:
        click.echo(f"  note      {isolation.sentence(isolation.WITHOUT_ROOT)}")
    elif closed is not None:
        click.echo(f"  note      functions run as users of their own, who cannot pass {closed}; see --state-dir")
