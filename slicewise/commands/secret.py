"""`slicewise secret`: values go in, names come out."""

from __future__ import annotations

import base64
import sys
from pathlib import Path

import click

from proto.types.errors import SlicewiseError
from slicewise.commands.options import connect, gateway_option, in_namespace, namespace_option

_CONFLICT = 409


@click.group("secret")
def secret_command() -> None:
    """Create, list, update and remove secrets; functions read them in /var/openfaas/secrets."""


@secret_command.command("create")
@click.argument("name")
@click.option("--from-literal", "literal", help="The value; beware of your shell's history.")
@click.option("--from-file", "file", type=click.Path(path_type=Path), help="The file's bytes, exactly.")
@click.option("--trim/--no-trim", default=True, help="Trim white space around a literal or stdin.")
@click.option("--replace", is_flag=True, help="Update it if it exists.")
@namespace_option
@gateway_option
def create(
    name: str, literal: str | None, file: Path | None, trim: bool, replace: bool, namespace: str, gateway: str | None
) -> None:
    """Create secret NAME from a literal, a file or stdin."""
    target = connect(gateway)
    body = _body(name, literal, file, trim, namespace)
    answer = target.system("POST", "/system/secrets", body=body, accept=(_CONFLICT,) if replace else ())
    if answer.status == _CONFLICT:
        target.system("PUT", "/system/secrets", body=body)
    click.echo(f"Created secret {name}")


@secret_command.command("update")
@click.argument("name")
@click.option("--from-literal", "literal")
@click.option("--from-file", "file", type=click.Path(path_type=Path))
@click.option("--trim/--no-trim", default=True)
@namespace_option
@gateway_option
def update(name: str, literal: str | None, file: Path | None, trim: bool, namespace: str, gateway: str | None) -> None:
    """Give secret NAME another value."""
    connect(gateway).system("PUT", "/system/secrets", body=_body(name, literal, file, trim, namespace))
    click.echo(f"Updated secret {name}")


@secret_command.command("list")
@namespace_option
@gateway_option
def list_(namespace: str, gateway: str | None) -> None:
    """List the names of secrets."""
    for item in connect(gateway).system("GET", "/system/secrets", in_namespace(namespace)).json():
        click.echo(item["name"])


@secret_command.command("remove")
@click.argument("name")
@namespace_option
@gateway_option
def remove(name: str, namespace: str, gateway: str | None) -> None:
    """Remove secret NAME."""
    query = in_namespace(namespace)
    connect(gateway).system("DELETE", "/system/secrets", query, {"name": name, **query})
    click.echo(f"Removed secret {name}")


def _body(name: str, literal: str | None, file: Path | None, trim: bool, namespace: str) -> dict[str, str]:
    if literal is not None and file is not None:
        raise SlicewiseError("bad_request", "--from-literal: cannot be given together with --from-file.")
    body = {"name": name, **in_namespace(namespace)}
    if file is not None:
        try:
            data = file.read_bytes()
        except OSError as error:
            raise SlicewiseError("bad_request", f"--from-file: {file} cannot be read ({error.strerror}).") from error
        return {**body, "rawValue": base64.b64encode(data).decode(), "value": data.decode(errors="replace")}
    if literal is None:
        if sys.stdin.isatty():
            raise SlicewiseError("bad_request", "--from-literal: or --from-file, or the value on stdin is required.")
        literal = sys.stdin.read()
    return {**body, "value": literal.strip() if trim else literal}
