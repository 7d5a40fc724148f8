"""`slicewise invoke`: one call, its answer on stdout as it comes."""

from __future__ import annotations

import sys
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from urllib.parse import quote

import click

from proto.types.errors import SlicewiseError
from slicewise.client.http import INVOKE_TIMEOUT_S
from slicewise.commands.options import connect, gateway_option, namespace_option, pairs

_CHUNK = 64 * 1024
_SHOWN = (
    ("Slice", "slice"),
    ("Cache", "cache"),
    ("Queue-Seconds", "queued"),
    ("Load-Seconds", "loaded"),
    ("Infer-Seconds", "inferred"),
)


@click.command("invoke")
@click.argument("name")
@click.option("--data", "-d", help="Body; @FILE reads a file. Without it stdin is sent, unless that is a terminal.")
@click.option("--query", "queries", multiple=True, metavar="KEY=VALUE")
@click.option("--header", "-H", "headers", multiple=True, metavar="KEY=VALUE", help="KEY=VALUE or 'KEY: VALUE'.")
@click.option("--method", "-m", default="POST", show_default=True)
@click.option("--path", "path", default="", help="Path after the function's name.")
@click.option("--content-type", default="text/plain", show_default=True)
@click.option("--verbose", "-v", is_flag=True, help="Show slice, hit or miss, and where the seconds went.")
@click.option("--timeout", "timeout_s", type=float, default=INVOKE_TIMEOUT_S, metavar="SECONDS", show_default=True)
@namespace_option
@gateway_option
def invoke_command(
    name: str,
    data: str | None,
    queries: tuple[str, ...],
    headers: tuple[str, ...],
    method: str,
    path: str,
    content_type: str,
    verbose: bool,
    timeout_s: float,
    namespace: str,
    gateway: str | None,
) -> None:
    """Call function NAME (or NAME.NAMESPACE) and print its answer."""
    target = connect(gateway)
    full = f"{name}.{namespace}" if namespace and "." not in name else name
    tail = "/" + quote(path.lstrip("/")) if path else ""
    sent = {"Content-Type": content_type, **pairs("--header", (_header(text) for text in headers))}
    address = f"/function/{quote(full)}{tail}"
    with target.stream(method.upper(), address, pairs("--query", queries), sent, _body(data), timeout_s) as answer:
        if answer.status >= 400:
            text = answer.read().decode(errors="replace").strip()
            if verbose:
                _tell(answer)
            raise SlicewiseError("unavailable", f"{full} answered {answer.status}: {text or answer.reason}")
        _print(answer)
        if verbose:
            _tell(answer)


def _body(data: str | None) -> bytes:
    if data is None:
        return b"" if sys.stdin.isatty() else sys.stdin.buffer.read()
    if data.startswith("@"):
        try:
            return Path(data[1:]).read_bytes()
        except OSError as error:
            raise SlicewiseError("bad_request", f"--data: {data[1:]} cannot be read ({error.strerror}).") from error
    return data.encode()


def _header(text: str) -> str:
    """Both `KEY=VALUE`, as faas-cli has it, and curl's `KEY: VALUE`."""
    key, colon, value = text.partition(":")
    return f"{key.strip()}={value.strip()}" if colon and "=" not in key else text


def _print(answer: HTTPResponse) -> None:
    last = b"\n"
    try:
        while chunk := answer.read1(_CHUNK):
            sys.stdout.buffer.write(chunk)
            sys.stdout.buffer.flush()
            last = chunk
    except (TimeoutError, HTTPException, ConnectionError) as error:
        raise SlicewiseError("unavailable", f"The answer broke off: {error}.") from error
    if sys.stdout.isatty() and not last.endswith(b"\n"):
        sys.stdout.buffer.write(b"\n")


def _tell(answer: HTTPResponse) -> None:
    """On stderr, so that stdout stays the answer."""
    told = []
    for header, word in _SHOWN:
        value = answer.getheader(f"X-Slicewise-{header}")
        if value is not None:
            told.append(f"{word} {float(value):.3f} s" if header.endswith("Seconds") else f"{word} {value}")
    whole = answer.getheader("X-Duration-Seconds")
    if whole is not None:
        told.append(f"whole {float(whole):.3f} s")
    told.append(f"status {answer.status}")
    call = answer.getheader("X-Call-Id")
    if call:
        told.append(f"call {call}")
    click.echo(", ".join(told), err=True)
