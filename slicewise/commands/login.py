"""`slicewise login`: checks a password and keeps it where faas-cli does."""

from __future__ import annotations

import sys

import click

from proto.types.errors import SlicewiseError
from slicewise.client import logins
from slicewise.client.http import Gateway
from slicewise.commands.options import connect, gateway_option


@click.command("login")
@click.option("--username", "-u", default="admin", show_default=True)
@click.option("--password", "-p", help="Beware of your shell's history; --password-stdin is better.")
@click.option("--password-stdin", "-s", is_flag=True, help="Read the password from stdin.")
@gateway_option
def login_command(username: str, password: str | None, password_stdin: bool, gateway: str | None) -> None:
    """Store the login for a gateway. `slicewise up` has done it for its own."""
    if password_stdin:
        password = sys.stdin.read().strip()
    if not password:
        password = str(click.prompt("Password", hide_input=True, err=True))
    url = connect(gateway).url
    answer = Gateway(url, logins.basic(username, password)).system("GET", "/system/functions", accept=(401,))
    if answer.status == 401:
        raise SlicewiseError("unauthorised", f"{url} does not accept this user and password.")
    click.echo(f"Stored the login for {url} in {logins.store(url, username, password)}")
