"""`slicewise check`: what will happen to a handler on slices, before it is deployed anywhere."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path
from typing import Any

import click

from proto.types.errors import SlicewiseError
from slicewise.commands.options import json_option, pairs, state_dir_option

_MAX_CALLS = 1000


@click.command("check")
@click.argument("directory", type=click.Path(path_type=Path))
@click.option("--input", "-i", "file", type=click.Path(path_type=Path), help="Body of the request; empty without.")
@click.option("--header", "-H", "headers", multiple=True, metavar="'KEY: VALUE'", help="Header of the request.")
@click.option("--env", "-e", "variables", multiple=True, metavar="KEY=VALUE", help="Environment of the handler.")
@click.option("--calls", type=click.IntRange(1, _MAX_CALLS), default=5, show_default=True, help="How often to call it.")
@click.option(
    "--timeout", "timeout_s", type=click.FloatRange(0.1), default=60.0, metavar="SECONDS", show_default=True,
    help="Limit of one call.",
)  # fmt: skip
@click.option(
    "--slices", default="", metavar="SPEC",
    help="Slices it is to fit, as 2x1g:512MiB; else those of a running platform, else this machine's default.",
)  # fmt: skip
@click.option("--lang", "template", default="python3-http", show_default=True, help="Template of the handler.")
@json_option
@state_dir_option
def check_command(
    directory: Path,
    file: Path | None,
    headers: tuple[str, ...],
    variables: tuple[str, ...],
    calls: int,
    timeout_s: float,
    slices: str,
    template: str,
    as_json: bool,
    state_dir: Path | None,
) -> None:
    """Run the handler in DIRECTORY on a platform of its own and tell what runs on a slice, what fails, what it costs.

    Exit status: 0 all is fine, 1 something fails, 2 bad input.
    """
    if not directory.is_dir():
        raise SlicewiseError("bad_request", f"{directory} is not a folder.")
    from slicewise.checking.request import Request

    request = Request(directory, _body(file), _headers(headers), pairs("--env", variables), calls, timeout_s, template)
    for number in (signal.SIGINT, signal.SIGTERM):  # both end it in order, also where a shell has it ignore the first
        signal.signal(number, signal.default_int_handler)
    document = _check(request, slices, state_dir)
    if as_json:
        click.echo(json.dumps(document))
    else:
        from slicewise.checking.showing import show

        show(document)
    sys.exit(0 if document["ok"] else 1)


def _check(request: Any, spec: str, state_dir: Path | None) -> dict[str, Any]:
    from rich.console import Console

    from slicewise.checking import choosing, document, images, trial
    from slicewise.checking.platform import PrivatePlatform
    from slicewise.launcher.layout import default_state_dir

    folder = (state_dir or default_state_dir()).absolute()
    chosen, where = choosing.slices(spec, folder)
    console = Console(stderr=True, highlight=False)
    with (
        console.status("starting") as status,
        images.kept(request.directory, folder) as kept,
        PrivatePlatform(choosing.largest(chosen), request.timeout_s, kept) as platform,
    ):
        found = trial.run(platform, request, lambda step: status.update(step))
        # Its files go with the platform.
        told = document.make(found, chosen, where)
        status.update("stopping")
    return told


def _body(file: Path | None) -> bytes:
    if file is None:
        return b""
    try:
        return file.read_bytes()
    except OSError as error:
        raise SlicewiseError("bad_request", f"--input: {file} cannot be read ({error.strerror}).") from error


def _headers(given: tuple[str, ...]) -> dict[str, str]:
    found = {}
    for text in given:
        key, colon, value = text.partition(":")
        if not colon or not key.strip():
            raise SlicewiseError("bad_request", f"--header: {text!r} must be written 'KEY: VALUE'.")
        found[key.strip()] = value.strip()
    return found
