"""Options that several commands share, and how they find the gateway."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

import click

from gateway.core import durations
from proto.types.errors import SlicewiseError
from slicewise.client import logins
from slicewise.client.http import Gateway, choose_gateway

Function = TypeVar("Function", bound=Callable[..., Any])

STACK_FILES = ("stack.yaml", "stack.yml")


class _Duration(click.ParamType):  # type: ignore[type-arg]  # generic in click's newer releases only
    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Nanoseconds in a Go duration or a whole number of seconds."""
        if isinstance(value, int):
            return value
        try:
            return durations.parse_ns(value)
        except ValueError as error:
            self.fail(f"{error}.", param, ctx)


DURATION = _Duration()


def gateway_option(function: Function) -> Function:
    """--gateway"""
    return click.option("--gateway", "-g", help="URL of the gateway; else stack.yml, OPENFAAS_URL, or port 8080 here.")(
        function
    )


def namespace_option(function: Function) -> Function:
    """--namespace"""
    return click.option("--namespace", "-n", default="", help="Namespace of the function.")(function)


def state_dir_option(function: Function) -> Function:
    """--state-dir"""
    return click.option(
        "--state-dir",
        type=click.Path(path_type=Path),
        help="State folder; else SLICEWISE_STATE_DIR, or ~/.slicewise (root: /var/lib/slicewise).",
    )(function)


def json_option(function: Function) -> Function:
    """--json"""
    return click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")(function)


def stack_file(given: Path | None = None) -> Path | None:
    """The stack file to use: the given one, else the one in the current folder."""
    if given is not None:
        return given
    return next((Path(name) for name in STACK_FILES if Path(name).is_file()), None)


def connect(flag: str | None, stack: Path | None = None) -> Gateway:
    """The gateway that the user means, with the login stored for it."""
    file = stack_file(stack) if not flag else None
    from_file = ""
    if file is not None:
        from slicewise.client.stack import gateway_of

        from_file = gateway_of(file)
    url = choose_gateway(flag, from_file)
    return Gateway(url, logins.authorization(url))


def pairs(flag: str, values: Iterable[str]) -> dict[str, str]:
    """KEY=VALUE flags as a dictionary; raises SlicewiseError `bad_request` without an =."""
    found: dict[str, str] = {}
    for value in values:
        key, equals, text = value.partition("=")
        if not equals or not key:
            raise SlicewiseError("bad_request", f"{flag}: {value!r} must be written KEY=VALUE.")
        found[key] = text
    return found


def in_namespace(namespace: str) -> dict[str, str]:
    """The query for a namespace, empty for the default one."""
    return {"namespace": namespace} if namespace else {}
