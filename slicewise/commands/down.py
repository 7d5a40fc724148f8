"""`slicewise down`: the launcher ends its services in order; this waits for it."""

from __future__ import annotations

import contextlib
import os
import select
import signal
from pathlib import Path

import click

from proto.types.errors import SlicewiseError
from slicewise.commands.options import state_dir_option

# Four groups of services with seven seconds each at the very worst.
_TIMEOUT_S = 35.0
_KILLED_TIMEOUT_S = 5.0


@click.command("down")
@state_dir_option
def down_command(state_dir: Path | None) -> None:
    """Stop the platform of a state folder; functions and settings stay for the next start."""
    from slicewise.launcher import lock
    from slicewise.launcher.layout import Layout, default_state_dir

    layout = Layout((state_dir or default_state_dir()).absolute())
    pid = lock.holder(layout.lock)
    if pid is None:
        click.echo(f"Slicewise does not run on {layout.root}.")
        return
    try:
        launcher = os.pidfd_open(pid)
    except ProcessLookupError:
        click.echo("Slicewise is stopped.")
        return
    try:
        # The pid is still that of the lock's holder, so the descriptor is the launcher's and nobody else's.
        if lock.holder(layout.lock) == pid and not (
            _end(launcher, signal.SIGTERM, _TIMEOUT_S) or _end(launcher, signal.SIGKILL, _KILLED_TIMEOUT_S)
        ):
            raise SlicewiseError("unavailable", f"The launcher (pid {pid}) does not end; see {layout.logs}.")
    finally:
        os.close(launcher)
    click.echo("Slicewise is stopped.")


def _end(launcher: int, number: signal.Signals, timeout_s: float) -> bool:
    with contextlib.suppress(ProcessLookupError):
        signal.pidfd_send_signal(launcher, number)
    # Readable once the process has ended, with all its children before it.
    ready, _, _ = select.select([launcher], [], [], timeout_s)
    return bool(ready)
