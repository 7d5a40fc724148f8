"""`slicewise down`: the launcher ends its services in order; this waits for it."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

import click

from proto.types.errors import SlicewiseError
from slicewise.commands.options import state_dir_option

_POLL_S = 0.05
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
    if not _end(layout.lock, pid, signal.SIGTERM, _TIMEOUT_S) and not _end(
        layout.lock, pid, signal.SIGKILL, _KILLED_TIMEOUT_S
    ):
        raise SlicewiseError("unavailable", f"The launcher (pid {pid}) does not end; see {layout.logs}.")
    click.echo("Slicewise is stopped.")


def _end(path: Path, pid: int, number: signal.Signals, timeout_s: float) -> bool:
    from slicewise.launcher import lock

    # The pid is that of the lock's holder at this moment, so it cannot be another process's yet.
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        if lock.holder(path) != pid:
            return True
        time.sleep(_POLL_S)
    return False
